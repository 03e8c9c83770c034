/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of ranks' files, and what they are parts of. */
#ifndef FORMAT_MEGATRON_LEGACY_PARTS_H
#define FORMAT_MEGATRON_LEGACY_PARTS_H

#include <zf/base/dtype.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

#include "files.h"
#include "names.h"

/* The attribute of a master that tells whether its parameter is cut.
 * Source: megatron/core/tensor_parallel/layers.py (set_tensor_model_parallel_attributes). */
enum legacy_attr { LEGACY_ATTR_UNSAID, LEGACY_ATTR_WHOLE, LEGACY_ATTR_CUT };

/* A tensor of one rank. */
struct legacy_part {
    const char *name; /* in its file */
    size_t name_n;
    uint32_t file;  /* of legacy_files */
    uint32_t chunk; /* of the virtual pipeline */
    enum zf_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape;
    enum legacy_attr attr;
    uint32_t attr_dim, attr_stride;
    /* Set by the join: */
    uint32_t whole; /* the tensor of which it is a part … */
    uint32_t slot;  /* … and which part */
    uint32_t first; /* the first part of that slot, of which this is a copy; or itself */
};

/* A tensor of the model. */
struct legacy_whole {
    const char *name;
    size_t name_n;
    const char *tied; /* the name it may be tied to, or NULL */
    enum legacy_cut cut;
    enum zf_dtype dtype;
    uint32_t ndim;
    uint64_t shape[2];
    bool partial; /* not all ranks' optimizers are known to have it: no master, no states */
    uint32_t n_slots;
    uint32_t *slot; /* [n_slots] number of its first part + 1; 0 = none yet */
};

struct legacy_join {
    struct zf_arena *a;
    const struct legacy_files *files;
    const struct megatron_settings *settings;
    struct legacy_part *part;
    uint32_t n_parts;
    uint32_t n_chunks; /* of the virtual pipeline, in every file */
    zf_vec(struct legacy_whole) whole;
    struct legacy_number *by_name; /* uthash, of their numbers */
};

#endif
