/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor that is cut over the tensor-parallel ranks of a job: which box of each rank's shard is which
 * box of the whole.  A box that several ranks have is a copy. */
#ifndef ZF_ASSEMBLE_CUT_H
#define ZF_ASSEMBLE_CUT_H

#include <zf/assemble/values.h>
#include <zf/model/build.h>

enum zf_cut_kind {
    ZF_CUT_COPIES, /* every rank has the whole */
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
    uint64_t rows; /* what is kept of dimension 0 (a padded vocabulary); 0 = all */
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

/* Lays the shards of these shapes, [n_ranks][ndim], by the rule; everything of *out is in the arena.
 * Errors: ZF_E_FORMAT the shapes do not go with it (without a name: the caller prepends one). */
bool zf_cut_lay(const struct zf_cut_rule *rule, uint32_t ndim, const uint64_t *const *shard,
                uint32_t n_ranks, struct zf_arena *a, struct zf_cut *out,
                struct zf_err *err) ZF_CHECKED;

/* Do the boxes, counting equal ones once, cover the whole exactly once?
 * Errors: ZF_E_FORMAT they leave it, overlap, or leave a hole; ZF_E_LIMIT there are too many. */
bool zf_cut_prove(const struct zf_cut *c, struct zf_err *err) ZF_CHECKED;

/* Drafts the whole at `spot` from the drafts of its shards, [n_ranks]; copies must agree to the bit, as
 * far as `check` has them read (as zf_copy_check_equal does).  Cut as zf_cut_prove has it.
 * Errors: ZF_E_FORMAT copies differ, shards of other types or shapes; of the build and of reading. */
struct zf_draft *zf_cut_draft(const struct zf_cut *c, struct zf_build *b, struct zf_spot spot,
                              struct zf_draft *const *shard, struct zf_copy_check *check,
                              struct zf_err *err) ZF_CHECKED;

/* Have the two drafts the same type and bytes, as far as `check` has them read?  What is lost of either
 * is taken as equal. */
bool zf_cut_same(struct zf_copy_check *check, struct zf_draft *a, struct zf_draft *b, bool *same,
                 struct zf_err *err) ZF_CHECKED;

#endif
