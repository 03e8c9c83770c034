/* SPDX-License-Identifier: Apache-2.0 */
/* How the saves of a run are opened. */
#ifndef ZF_OVERLAY_RUN_OPTS_H
#define ZF_OVERLAY_RUN_OPTS_H

#include <zf/source/store.h>
#include <zf/tree.h>

struct zf_choice; /* zf/find.h */

/* Filled by whoever knows what the user asked for. */
struct zf_run_opts {
    const struct zf_limits *lim;
    const struct zf_opener *opener; /* of the run; NULL = zf_store_dir */
    /* Gives the tree of the save `tag` of the directory `run`.  *withheld_out: bits of 0555 that are
     * taken off its modes. */
    struct zf_tree *(*open)(void *ctx, const char *run, const char *tag, uint16_t *withheld_out,
                            struct zf_err *err);
    /* Gives the tree of the newest save of `run` that is whole, as the choice says. */
    struct zf_tree *(*open_whole)(void *ctx, const char *run, const struct zf_choice *choice,
                                  uint16_t *withheld_out, struct zf_err *err);
    uint64_t poll_ns; /* how often open_whole is asked */
    /* The bits of a save that was not opened yet, by the directory it is in. */
    uint16_t (*withheld)(void *ctx, const char *dir);
    void *ctx;
};

#endif
