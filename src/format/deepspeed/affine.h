/* SPDX-License-Identifier: Apache-2.0 */
/* One parameter of AutoTP's affine_map. */
#ifndef FORMAT_DEEPSPEED_AFFINE_H
#define FORMAT_DEEPSPEED_AFFINE_H

#include <zf/assemble/cut.h>
#include <zf/base/table.h>

#include "name.h"

/* It, and whose it is. */
struct tp_affine {
    UT_hash_handle hh; /* key: its name */
    struct ds_name name;
    struct zf_cut cut;
    const uint64_t *const *shard; /* [n_ranks][ndim] */
};

/* Reads {logical_shape, ranks: {tensor rank: {shard_shape, pieces: [{shape, source, dest}]}}}.
 * Errors: ZF_E_FORMAT a value of the wrong kind, a piece that leaves the tensor or its shard;
 * ZF_E_UNSUPPORTED more pieces than expected; of the arena. */
bool affine_read(struct zf_arena *a, const struct zf_pv *v, uint32_t n_ranks, struct tp_affine *out,
                 struct zf_err *err) ZF_CHECKED;

#endif
