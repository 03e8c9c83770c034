/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the trees of model-parallel ranks (mp_rank_NN/) into one at the root: tensor-parallel shards of each pipeline
 * stage are joined as a callback says, and tensors that several stages have are shown once.  Either the root gets
 * everything and the trees are removed, or nothing is changed. */
#ifndef ZF_ASSEMBLE_TREE_JOIN_H
#define ZF_ASSEMBLE_TREE_JOIN_H

#include <zf/assemble/cut.h>

/* A tensor that all tensor-parallel ranks of a stage have. */
struct zf_tree_tensor {
    const char *set, *name; /* set: relative to the tree */
    size_t name_len;
    enum zf_dtype dtype;
    uint32_t ndim, n_ranks;
    const uint64_t *const *shard; /* [n_ranks][ndim] shapes */
};

struct zf_tree_join {
    struct zf_build *b;
    const char *const *tree; /* [n_stages * n_ranks] paths, the ranks of a stage side by side */
    uint32_t n_stages, n_ranks;
    /* Fills *out with how the tensor is cut; what *out points to must stay valid until zf_tree_join returns.  False: it
     * cannot be joined, or another failure.  Not called if n_ranks is 1. */
    bool (*cut)(void *ctx, const struct zf_tree_tensor *t, struct zf_cut *out, struct zf_err *err);
    /* Called when everything is joined: a failure still refuses the join.  May be NULL. */
    bool (*done)(void *ctx, struct zf_err *err);
    void *ctx;
    bool told;          /* the user gave rules for joining: if they do not fit, that is an error */
    bool stages_differ; /* out: it failed because a tensor has different bytes in two stages */
};

/* Joins the trees.  The sets "extra/..." are no weights: the root gets the first rank's tensor of each name; another
 * rank's that differs is shown in extra/<tree>/.
 * Errors: with the tensor's name; nothing is changed then.  ZF_E_FORMAT if replicas or stages differ. */
bool zf_tree_join(struct zf_tree_join *j, struct zf_err *err) ZF_CHECKED;

/* Notes why the trees of n ranks are not joined. */
bool zf_tree_stay(struct zf_build *b, uint32_t n, const char *why, struct zf_err *err) ZF_CHECKED;

/* As zf_tree_join, but trees that do not fit together are kept, with a note.  With `told` or stages_differ, that is an
 * error unless the build is degraded. */
bool zf_tree_join_or_stay(struct zf_tree_join *j, struct zf_err *err) ZF_CHECKED;

#endif
