/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of which a file holds one rank's shard: DTensor (FSDP2, tensor parallel) and ShardedTensor (FSDP1).  The
 * pickle's description, checked, in the arena of the zf_torch; the format computes which box a shard fills.
 * Source: torch/distributed/tensor (2.6 … 2.15), torch/distributed/_shard (1.13 …). */
#ifndef ZF_CODEC_DTENSOR_H
#define ZF_CODEC_DTENSOR_H

#include <zf/codec/torch.h>

enum zf_placement {
    ZF_PLACEMENT_REPLICATE,
    ZF_PLACEMENT_SHARD,   /* cut along dim */
    ZF_PLACEMENT_STRIDED, /* cut along dim after a finer cut of split_factor (FSDP over TP) */
    ZF_PLACEMENT_PARTIAL, /* the value is the sum over the ranks */
};

struct zf_mesh_axis {
    uint64_t size;  /* ranks along this axis */
    uint64_t coord; /* this rank's coordinate, < size (0 without has_coord) */
    enum zf_placement place;
    uint32_t dim;          /* SHARD, STRIDED: < ndim */
    uint64_t split_factor; /* STRIDED: > 0 */
};

struct zf_dtensor {
    const struct zf_pv *local; /* the local tensor; its kind is that of zf_torch_kind */
    enum zf_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape, *stride; /* [ndim] of the whole tensor */
    uint32_t n_axes;
    const struct zf_mesh_axis *axis;
    bool has_coord; /* false: the saving rank was not part of the mesh */
    /* [n_ranks] the ranks of the mesh (2.14: of its root mesh), C order; may be NULL */
    const uint64_t *rank;
    uint64_t n_ranks;
};

/* Reads v, of kind DTENSOR.  Errors: ZF_E_FORMAT a field is missing or out of range; ZF_E_UNSUPPORTED an unknown
 * placement. */
bool zf_torch_dtensor(struct zf_torch *t, const struct zf_pv *v, struct zf_dtensor *out,
                      struct zf_err *err) ZF_CHECKED;

struct zf_shard {
    const uint64_t *off, *size; /* [ndim], inside the whole shape */
    int64_t rank;               /* -1 = not known */
    const struct zf_pv *tensor; /* local shards; NULL in the list of all shards */
};

struct zf_sharded {
    enum zf_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape; /* of the whole tensor */
    uint64_t n_all, n_local;
    const struct zf_shard *all;   /* the metadata's shards of every rank, in its order */
    const struct zf_shard *local; /* the shards in this file */
    int64_t rank, world;          /* of the process group that saved; -1 = not known */
};

/* Reads v, of kind SHARDED.  Errors: ZF_E_FORMAT. */
bool zf_torch_sharded(struct zf_torch *t, const struct zf_pv *v, struct zf_sharded *out,
                      struct zf_err *err) ZF_CHECKED;

#endif
