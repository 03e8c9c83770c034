/* SPDX-License-Identifier: Apache-2.0 */
/* -o all_tags: a directory per save of a run, each opened when somebody first looks into it, and a
 * link called latest.  Saves that come later appear by themselves. */
#ifndef ZF_OVERLAY_RUNS_H
#define ZF_OVERLAY_RUNS_H

#include <zf/overlay/log.h>
#include <zf/tree.h>

/* How the saves are opened: by whoever knows what the user asked for. */
struct zf_run_opts {
    const struct zf_limits *lim;
    bool xdev; /* sources may lie in other file systems than the run */
    /* Gives the tree of the save `tag` of the directory `run`.  *withheld_out: bits of 0555 that are
     * taken off its modes. */
    struct zf_tree *(*open)(void *ctx, const char *run, const char *tag, uint16_t *withheld_out,
                            struct zf_err *err);
    /* The bits of a save that was not opened yet, by the directory it is in. */
    uint16_t (*withheld)(void *ctx, const char *dir);
    void *ctx;
};

/* Borrows log and what o leads to, which must outlive the tree.
 * Errors: ZF_E_UNKNOWN no save is there; of the store. */
struct zf_tree *zf_runs_tree(const char *path, const struct zf_run_opts *o, struct zf_log *log,
                             struct zf_err *err) ZF_CHECKED;

#endif
