/* SPDX-License-Identifier: Apache-2.0 */
/* How the saves of a run are opened. */
#ifndef ZF_OVERLAY_RUN_OPTS_H
#define ZF_OVERLAY_RUN_OPTS_H

#include <zf/source/store.h>
#include <zf/tree.h>

struct zf_choice; /* zf/find.h */

/* Set from the user's options. */
struct zf_run_opts {
    const struct zf_limits *lim;
    const struct zf_opener *opener; /* of the run; NULL = zf_store_dir */
    /* Opens the tree of the save `tag` of the directory `run`.  *withheld_out: bits of 0555 that are cleared from its
     * modes. */
    struct zf_tree *(*open)(void *ctx, const char *run, const char *tag, uint16_t *withheld_out,
                            struct zf_err *err);
    /* Opens the tree of the newest complete save of `run`, by the rules of the choice. */
    struct zf_tree *(*open_whole)(void *ctx, const char *run, const struct zf_choice *choice,
                                  uint16_t *withheld_out, struct zf_err *err);
    uint64_t poll_ns; /* interval of calls of open_whole, nanoseconds */
    /* The withheld bits of a save that was not opened yet, from the directory that contains it. */
    uint16_t (*withheld)(void *ctx, const char *dir);
    void *ctx;
};

#endif
