/* SPDX-License-Identifier: Apache-2.0 */
/* -o all_tags: a directory per save of a run, each opened when somebody first looks into it, and a
 * link called latest.  Saves that come later appear by themselves. */
#ifndef ZF_OVERLAY_RUNS_H
#define ZF_OVERLAY_RUNS_H

#include <zf/overlay/log.h>
#include <zf/overlay/run_opts.h>

/* Borrows log and what o leads to, which must outlive the tree.
 * Errors: ZF_E_UNKNOWN no save is there; of the store. */
struct zf_tree *zf_runs_tree(const char *path, const struct zf_run_opts *o, struct zf_log *log,
                             struct zf_err *err) ZF_CHECKED;

/* -o current: one directory, current/, which is the newest save of the run that is whole; none while there is none.  A thread
 * looks for newer ones.  What the kernel holds of an older one (hold of zf/tree.h) stays as it is.
 * Borrows as above.  Errors: none because of what is in the run. */
struct zf_tree *zf_current_tree(const char *path, const struct zf_run_opts *o, struct zf_log *log,
                                struct zf_err *err) ZF_CHECKED;

#endif
