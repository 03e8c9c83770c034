/* SPDX-License-Identifier: Apache-2.0 */
/* universal_checkpoint_info: the save's record of how to join its tensor-parallel ranks. */
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

/* affine.c: takes {logical_shape, ranks: {rank: {shard_shape, pieces: [{shape, source, dest}]}}}.  Pieces must be
 * inside the tensor and the shard, and each element of a shard in exactly one piece.  *out is complete unless it failed. */
void affine_take(const struct zf_take *map, uint32_t n_ranks, struct tp_affine *out);

enum tp_kind { TP_COPIES, TP_AVERAGE, TP_TWO, TP_SUBS, TP_ROW, TP_VOCABULARY };

/* A pattern of parameter names, and how to join those parameters. */
struct tp_pattern {
    struct ds_name text;
    const struct zf_pattern *pattern;
    enum tp_kind kind;
    bool used;
    /* SUBS */
    uint32_t dim, n_subs;
    const uint64_t *width; /* as in zf_cut_rule */
};

struct tp_info {
    bool there, has_affine;
    struct tp_pattern *pattern;
    uint32_t n_patterns;
    uint64_t vocabulary; /* original_vocab_size, 0 = not recorded */
    struct tp_affine *affine;
    char why[520]; /* why the record cannot be used; "" = it can */
};

/* Reads v for n_ranks tensor-parallel ranks; everything but the table is in the save's arena.  A record
 * that is invalid or not supported is no error but described in `why`.  Errors: of the arena. */
bool tp_info_read(struct ds_save *ds, const struct zf_pv *v, uint32_t n_ranks, struct tp_info *out,
                  struct zf_err *err) ZF_CHECKED;
void tp_info_fini(struct tp_info *info);
/* The parameter's entry in the affine map, or NULL. */
const struct tp_affine *tp_info_affine(const struct tp_info *info, const char *name, size_t n);

#endif
