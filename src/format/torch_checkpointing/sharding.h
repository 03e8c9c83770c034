/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files of torch_checkpointing contain only shards of tensors; metadata.pkl says where they belong:
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
    UT_hash_handle hh;         /* key: the steps of its path, joined by dots */
    struct zf_path path;       /* begins with the item's head */
    const struct zf_pv *group; /* [{sharding_metadata, ranks}] */
    uint64_t n_ranks, n_seen;  /* number of ranks that should have a shard; that had one so far */
};

struct sharding {
    const struct zf_limits *lim;
    struct zf_arena *a;
    struct zf_names *names;
    struct sharding_tensor *tensor; /* uthash */
    struct zf_pieces pieces;
    struct zf_keeper keep; /* allocates from arena a */
};
void sharding_fini(struct sharding *s);

/* Reads the paths of an item; head: first step of each, or NULL.  Errors are set in x's taker. */
bool sharding_read_paths(struct sharding *s, const struct zf_take *x, const char *head,
                         struct zf_err *err) ZF_CHECKED;
/* Drafts the contents of a rank's file.  Errors: ZF_E_FORMAT; ZF_E_UNSUPPORTED other placements than Shard and
 * Replicate. */
bool sharding_add_file(struct sharding *s, const struct zf_st_header *h, struct zf_source *src,
                       uint32_t rank, const char *file, struct zf_err *err) ZF_CHECKED;
/* Checks that each tensor was in the files of all its ranks; degraded: a missing one is noted. */
bool sharding_end(struct sharding *s, struct zf_err *err) ZF_CHECKED;

#endif
