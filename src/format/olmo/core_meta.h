/* SPDX-License-Identifier: Apache-2.0 */
/* metadata.json of an OLMo-core 0.x checkpoint: which elements of each tensor are in each rank's safetensors
 * file.
 *
 * {"tensors": {key: {"shape": [7, 5], "is_sharded": true, "dtype": "F32", "shard_spec_per_file":
 *  {"rank_0.safetensors": {"flattened_offsets": [[0, 33]], "local_shape": null, "global_offset": null}}}}}
 * Older ones have "flattened_offsets_per_file": {file: [s, e] or [[s, e], …]} instead.
 * Source: olmo_core/distributed/checkpoint.py, TensorStorageMetadata and TensorShardSpec (0.1.0). */
#ifndef OLMO_CORE_META_H
#define OLMO_CORE_META_H

#include <zf/base/arena.h>
#include <zf/base/dtype.h>
#include <zf/base/limits.h>
#include <zf/source/source.h>

/* A file's part of a tensor: ranges of the flattened tensor, stored consecutively, or a box. */
struct core_shard {
    uint32_t file; /* index in core_meta.file */
    uint64_t n;    /* number of elements */
    uint64_t n_ranges;
    const uint64_t *range;        /* [2 * n_ranges] begin and end of each */
    const uint64_t *start, *size; /* [ndim] of the box, or NULL */
};

struct core_tensor {
    const char *key;
    enum zf_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape;
    uint32_t n;
    const struct core_shard *shard; /* [n] one for each file that has a part of it */
};

struct core_meta {
    uint64_t n;
    struct core_tensor *tensor;
    uint32_t n_files;
    const char **file; /* names without a directory, each once */
};

/* Reads metadata.json from src; *out is allocated in a.
 * Errors: ZF_E_FORMAT, with the tensor in the path; ZF_E_LIMIT; of the arena and of src. */
bool core_meta_read(struct zf_source *src, const struct zf_limits *lim, struct zf_arena *a,
                    struct core_meta *out, struct zf_err *err) ZF_CHECKED;

#endif
