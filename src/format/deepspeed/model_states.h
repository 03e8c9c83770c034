/* SPDX-License-Identifier: Apache-2.0 */
/* Model-states files. */
#ifndef FORMAT_DEEPSPEED_MODEL_STATES_H
#define FORMAT_DEEPSPEED_MODEL_STATES_H

#include "autoep.h"

/* A trained parameter, in the order in which the flat vectors hold them. */
struct ds_param {
    struct ds_name name;
    uint32_t ndim;
    const uint64_t *shape;
    uint64_t n;   /* elements */
    bool columns; /* a matrix that is in the flat vector column by column (ZenFlow) */
    /* Of an expert: what its 16-bit weight is called, if not `name`; p = NULL: it is. */
    struct ds_name weight;
    /* AutoEP: shape [ndim] of the tensor of all experts, of which this is the part from expert
     * `first` on; NULL = it is not fused. */
    const uint64_t *whole;
    uint64_t first;
};

/* One flat vector's worth of them. */
struct ds_shapes {
    struct ds_param *param;
    uint32_t n;
};

/* One key of `module`. */
struct ds_entry {
    struct ds_name name;
    bool tensor; /* view is filled; else some other value (None, bytes …) */
    bool lost;   /* degraded: a tensor that cannot be read, as a note says */
    struct zf_tensor_ref view;
};

struct ds_alias {
    struct ds_name name, of;
};

struct ds_model {
    const char *path;
    bool read;               /* the file could be read: what fails then is another save's */
    struct ds_shapes *group; /* param_shapes */
    uint32_t n_groups;
    bool has_shapes;
    struct ds_entry *entry;          /* module, in file order */
    uint32_t n_entries, cap_entries; /* cap: room where it grows (layers.c) */
    const uint32_t *by_name;         /* entries sorted by name, [n_entries] */
    struct ds_name *buffer;          /* sorted */
    uint32_t n_buffers;
    bool has_buffers;
    struct ds_shapes frozen;   /* frozen_param_shapes */
    struct ds_entry *fragment; /* of frozen parameters, this rank's slices */
    uint32_t n_fragments;
    struct ds_alias *alias;
    struct ds_name *second; /* the names of alias, sorted */
    uint32_t n_aliases;
    bool pipeline;     /* `module` is None: the weights are in the files of layers */
    uint64_t mp_world; /* mp_world_size; 0 = not recorded */
    uint32_t tp, pp;   /* checkpoint_parallel_dimensions; 0 = not recorded */
    uint64_t affine;   /* digest of affine_map; 0 = there is none */
    int64_t steps;     /* global_steps, -1 = not recorded */
    int64_t skipped;   /* skipped_steps of them */
    uint32_t minor;    /* of ds_version 0.minor.patch; 0 = another, or not recorded */
    uint32_t patch;
    bool zenflow;
    bool round_robin;       /* round_robin_gradients */
    bool quantized;         /* zero_quantized_nontrainable_weights: without the scales */
    bool super_offload;     /* the moments are in another process */
    bool moe;               /* there are layers with experts */
    bool blocks;            /* ranks of an expert are contiguous (experts.h) */
    struct ds_fused *fused; /* sorted by name */
    uint32_t n_fused;
};

/* Reads a model-states file.  Everything is copied or held; the pickle is freed.
 * Errors: ZF_E_FORMAT not a model-states file, a value of the wrong kind; ZF_E_UNSUPPORTED a
 * parallelism that is not read; those of zf_torch_open. */
bool ds_model_read(struct ds_save *ds, const struct ds_file *f, struct ds_model *out,
                   struct zf_err *err) ZF_CHECKED;
/* The same of the first file of a model-parallel rank, which the others repeat. */
bool ds_model_read_first(struct ds_save *ds, const struct ds_file *f, struct ds_model *out,
                         struct zf_err *err) ZF_CHECKED;
/* Reads the value of e, whose name is known, from the mapping `where` of file t; *empty as for zf_tensor_ref_read_many.
 * Degraded, a tensor that cannot be read is lost, and a note says so.  Errors: of zf_tensor_ref_read_many. */
bool ds_entry_read(struct ds_save *ds, struct zf_torch *t, const char *where, const struct zf_pv *v,
                   struct zf_source **empty, struct ds_entry *e, struct zf_err *err) ZF_CHECKED;
/* How many model-parallel ranks the file says that there are; 0 = it does not. */
static inline uint64_t ds_model_ranks(const struct ds_model *m)
{
    return m->tp > 0 ? (uint64_t)m->tp * m->pp : m->mp_world;
}
/* Sorts the entries of m for ds_model_find. */
bool ds_model_index(struct ds_save *ds, struct ds_model *m, struct zf_err *err) ZF_CHECKED;
/* The entry of that name, or NULL. */
const struct ds_entry *ds_model_find(const struct ds_model *m, struct ds_name name);
/* Takes a mapping (or a list of mappings) of names to shapes. */
void ds_take_shapes(const struct ds_save *ds, const struct zf_take *x, struct ds_shapes **out,
                    uint32_t *n_out);

#endif
