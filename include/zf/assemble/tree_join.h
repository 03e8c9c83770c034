/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of model-parallel ranks (mp_rank_NN/) become one at the root: tensor-parallel shards of each pipeline
 * stage are joined as somebody says how, and what several stages have is there once.  All or nothing:
 * either the root has everything and the trees are gone, or they are as they were. */
#ifndef ZF_ASSEMBLE_TREE_JOIN_H
#define ZF_ASSEMBLE_TREE_JOIN_H

#include <zf/assemble/cut.h>

/* A tensor that all tensor-parallel ranks of a stage have. */
struct zf_tree_tensor {
    const char *set, *name; /* set: behind the tree's path */
    size_t name_len;
    enum zf_dtype dtype;
    uint32_t ndim, n_ranks;
    const uint64_t *const *shard; /* [n_ranks][ndim] shapes */
};

struct zf_tree_join {
    struct zf_build *b;
    const char *const *tree; /* [n_stages * n_ranks] paths, the ranks of a stage side by side */
    uint32_t n_stages, n_ranks;
    /* How the tensor is cut: fills *out, whose parts stay where they are until the end.  False: it cannot
     * be joined, or another failure.  Not asked when n_ranks is 1. */
    bool (*cut)(void *ctx, const struct zf_tree_tensor *t, struct zf_cut *out, struct zf_err *err);
    /* Asked when everything is joined: a last reason not to, or NULL. */
    bool (*done)(void *ctx, struct zf_err *err);
    void *ctx;
    bool told; /* somebody says how it is joined: where that does not fit, that is an error */
    bool stages_differ; /* out: it failed because one name has other bytes in another stage */
};

/* The sets "extra/..." are no weights: of each name the first rank's is in the root's, and where another
 * rank's differs, that is in extra/<tree>/ beside it.
 * Errors: with the tensor's name; everything is as before then.  Copies or stages that differ are
 * ZF_E_FORMAT. */
bool zf_tree_join(struct zf_tree_join *j, struct zf_err *err) ZF_CHECKED;

/* Notes why the trees of n ranks stay as they are. */
bool zf_tree_stay(struct zf_build *b, uint32_t n, const char *why, struct zf_err *err) ZF_CHECKED;

/* zf_tree_join; but trees that do not fit together stay, with a note, unless `told` or stages_differ.
 * Those are errors where the build is not degraded. */
bool zf_tree_join_or_stay(struct zf_tree_join *j, struct zf_err *err) ZF_CHECKED;

#endif
