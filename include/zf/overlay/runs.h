/* SPDX-License-Identifier: Apache-2.0 */
/* -o all_tags: one directory per save of a run, opened at the first access, and a link called latest.  New saves appear
 * automatically. */
#ifndef ZF_OVERLAY_RUNS_H
#define ZF_OVERLAY_RUNS_H

#include <zf/overlay/log.h>
#include <zf/overlay/run_opts.h>

/* Borrows log and everything in o, which must outlive the tree.
 * Errors: ZF_E_UNKNOWN there is no save; those of the store. */
struct zf_tree *zf_runs_tree(const char *path, const struct zf_run_opts *o, struct zf_log *log,
                             struct zf_err *err) ZF_CHECKED;

/* -o current: one directory, current/, with the newest complete save of the run; missing while there is none.  A thread
 * checks for newer saves.  Files of an older save that the kernel holds (`hold` in zf/tree.h) do not change.
 * Borrows as above.  The contents of the run cause no errors. */
struct zf_tree *zf_current_tree(const char *path, const struct zf_run_opts *o, struct zf_log *log,
                                struct zf_err *err) ZF_CHECKED;

#endif
