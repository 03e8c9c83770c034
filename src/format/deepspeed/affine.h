/* SPDX-License-Identifier: Apache-2.0 */
/* One parameter of AutoTP's affine_map. */
#ifndef FORMAT_DEEPSPEED_AFFINE_H
#define FORMAT_DEEPSPEED_AFFINE_H

#include <zf/assemble/cut.h>
#include <zf/base/table.h>

#include "name.h"

/* The affine map of one tensor. */
struct tp_affine {
    UT_hash_handle hh; /* key: its name */
    struct ds_name name;
    struct zf_cut cut;
    const uint64_t *const *shard; /* [n_ranks][ndim] */
};

/* Takes {logical_shape, ranks: {rank: {shard_shape, pieces: [{shape, source, dest}]}}}; a piece may not leave the tensor or
 * its shard, and each element of a shard is in one piece.  *out is whole unless something failed. */
void affine_take(const struct zf_take *map, uint32_t n_ranks, struct tp_affine *out);

#endif
