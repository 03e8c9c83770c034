/* SPDX-License-Identifier: Apache-2.0 */
/* How a tensor is sharded over tensor-parallel ranks: which box of each rank's shard is which box of the whole tensor.
 * A box that several ranks have is a replica. */
#ifndef ZF_ASSEMBLE_CUT_H
#define ZF_ASSEMBLE_CUT_H

#include <zf/assemble/values.h>
#include <zf/model/build.h>

enum zf_cut_kind {
    ZF_CUT_COPIES, /* every rank has the whole tensor */
    ZF_CUT_DIM,    /* the shards follow each other along `dim` */
    /* Sub-parameters (gate and up, q and k and v) follow each other along `dim` in every shard, and in
     * the whole, where each of them is joined by itself. */
    ZF_CUT_SUBS
};

struct zf_cut_rule {
    enum zf_cut_kind kind;
    uint32_t dim;
    uint32_t n_subs; /* SUBS */
    /* SUBS: extent of sub-parameter s in the shard of rank r at [s * n_ranks + r]; NULL = every shard is
     * divided equally */
    const uint64_t *width;
    uint64_t rows; /* rows of dimension 0 that are kept (of a padded vocabulary); 0 = all */
};

struct zf_cut_box {
    const uint64_t *in_shard, *in_whole, *size; /* [ndim] */
};

struct zf_cut_part {
    const struct zf_cut_box *box;
    uint32_t n;
};
struct zf_cut {
    uint32_t ndim, n_ranks;
    const uint64_t *shape;          /* [ndim] of the whole */
    const struct zf_cut_part *part; /* [n_ranks] */
};

/* Applies the rule to shards of these shapes, [n_ranks][ndim]; *out is in the arena.
 * Errors: ZF_E_FORMAT the shapes do not fit the rule (the message has no tensor name: the caller prepends it). */
bool zf_cut_lay(const struct zf_cut_rule *rule, uint32_t ndim, const uint64_t *const *shard,
                uint32_t n_ranks, struct zf_arena *a, struct zf_cut *out,
                struct zf_err *err) ZF_CHECKED;

/* Proves that the boxes, without replicas, cover the whole tensor exactly once.
 * Errors: ZF_E_FORMAT a box is outside, boxes overlap, or there is a hole; ZF_E_LIMIT there are too many. */
bool zf_cut_prove(const struct zf_cut *c, struct zf_err *err) ZF_CHECKED;

/* Drafts the whole tensor at `spot` from the drafts of its shards, [n_ranks].  Replicas must be bit-identical, as far
 * as `check` compares them (see zf_copy_check_equal).  Pre: zf_cut_prove succeeded.
 * Errors: ZF_E_FORMAT replicas differ, or shards have other types or shapes; those of the build and of reading. */
struct zf_draft *zf_cut_draft(const struct zf_cut *c, struct zf_build *b, struct zf_spot spot,
                              struct zf_draft *const *shard, struct zf_copy_check *check,
                              struct zf_err *err) ZF_CHECKED;

/* *same: the two drafts have the same type and bytes, as far as `check` compares them.  Lost bytes of either count as
 * equal. */
bool zf_cut_same(struct zf_copy_check *check, struct zf_draft *a, struct zf_draft *b, bool *same,
                 struct zf_err *err) ZF_CHECKED;

#endif
