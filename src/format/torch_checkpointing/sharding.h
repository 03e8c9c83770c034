/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files of a save of torch_checkpointing hold what each rank has of a tensor, and nothing else; metadata.pkl says
 * where that belongs:
 *   nested_path_to_metadata: {'["head.weight"]': [{sharding_metadata: {type, data}, ranks: [0, 2]}, …]}
 *   data of DTensorShardingMetadata: global_shape, dtype, mesh_spec {mesh_shape, mesh_data}, placements [{type, dim}]
 * Source: torch_checkpointing 0.1.1, resharding (DTensorShardingMetadata), SafetensorsSerialization. */
#ifndef TORCH_CHECKPOINTING_SHARDING_H
#define TORCH_CHECKPOINTING_SHARDING_H

#include <zf/assemble/names.h>
#include <zf/assemble/pieces.h>
#include <zf/assemble/take.h>
#include <zf/base/table.h>
#include <zf/codec/safetensors.h>

/* A tensor that metadata.pkl describes. */
struct sharding_tensor {
    UT_hash_handle hh;         /* by the steps of its path, joined by dots */
    struct zf_path path;       /* with the item's head in front */
    const struct zf_pv *group; /* [{sharding_metadata, ranks}] */
    uint64_t n_ranks, n_seen;  /* that should have a part of it; that had one so far */
};

struct sharding {
    const struct zf_limits *lim;
    struct zf_arena *a;
    struct zf_names *names;
    struct sharding_tensor *tensor; /* uthash */
    struct zf_pieces pieces;
    struct zf_keeper keep; /* its arena is a */
};
void sharding_fini(struct sharding *s);

/* Reads the paths of an item; head: first step of each, or NULL.  Fails in x's taker. */
bool sharding_read_paths(struct sharding *s, const struct zf_take *x, const char *head,
                         struct zf_err *err) ZF_CHECKED;
/* Drafts what the file of a rank holds.  Errors: ZF_E_FORMAT; ZF_E_UNSUPPORTED other placements than Shard and Replicate. */
bool sharding_add_file(struct sharding *s, const struct zf_st_header *h, struct zf_source *src,
                       uint32_t rank, const char *file, struct zf_err *err) ZF_CHECKED;
/* Each tensor must have been in the files of all its ranks; degraded: is noted. */
bool sharding_end(struct sharding *s, struct zf_err *err) ZF_CHECKED;

#endif
