/* SPDX-License-Identifier: Apache-2.0 */
/* The save's record of how its tensor-parallel ranks are joined: universal_checkpoint_info. */
#ifndef FORMAT_DEEPSPEED_TP_INFO_H
#define FORMAT_DEEPSPEED_TP_INFO_H

#include <zf/assemble/cut.h>
#include <zf/base/pattern.h>
#include <zf/base/table.h>

#include "steps.h"

/* The affine map of one tensor. */
struct tp_affine {
    UT_hash_handle hh; /* key: its name */
    struct ds_name name;
    struct zf_cut cut;
    const uint64_t *const *shard; /* [n_ranks][ndim] */
};

/* affine.c: takes {logical_shape, ranks: {rank: {shard_shape, pieces: [{shape, source, dest}]}}}; a piece may not leave the tensor or
 * its shard, and each element of a shard is in one piece.  *out is whole unless something failed. */
void affine_take(const struct zf_take *map, uint32_t n_ranks, struct tp_affine *out);

enum tp_kind { TP_COPIES, TP_AVERAGE, TP_TWO, TP_SUBS, TP_ROW, TP_VOCABULARY };

/* A pattern of names, and what it says of them. */
struct tp_pattern {
    struct ds_name text;
    const struct zf_pattern *pattern;
    enum tp_kind kind;
    bool used;
    /* SUBS */
    uint32_t dim, n_subs;
    const uint64_t *width; /* as of zf_cut_rule */
};

struct tp_info {
    bool there, has_affine;
    struct tp_pattern *pattern;
    uint32_t n_patterns;
    uint64_t vocabulary; /* original_vocab_size, 0 = not recorded */
    struct tp_affine *affine;
    char why[520]; /* why what is recorded cannot be used; "" = it can */
};

/* Reads it for n_ranks tensor-parallel ranks; everything but the table is in the save's arena.  What is not
 * understood is no failure: why says it.  Errors: of the arena. */
bool tp_info_read(struct ds_save *ds, const struct zf_pv *v, uint32_t n_ranks, struct tp_info *out,
                  struct zf_err *err) ZF_CHECKED;
void tp_info_fini(struct tp_info *info);
/* The parameter's entry in the affine map, or NULL. */
const struct tp_affine *tp_info_affine(const struct tp_info *info, const char *name, size_t n);

#endif
