/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer-states files. */
#ifndef FORMAT_DEEPSPEED_OPTIM_STATES_H
#define FORMAT_DEEPSPEED_OPTIM_STATES_H

#include "model_states.h"

/* Part of a flat vector: n elements packed from byte `off` of src. */
struct ds_flat {
    struct zf_source *src; /* borrowed from ds_save.keep; NULL when n is 0 */
    uint64_t off, n;
    enum zf_dtype dtype;
    uint64_t swapped; /* bytes of the swap file, whose padding n counts, too; 0: no swap file */
    /* degraded: n is 0 because this swap file cannot be used; or NULL */
    const struct zf_lost *lost;
};

enum ds_state_kind {
    /* belongs to no parameter: left out */
    ZF_DS_NONE,
    /* a tensor of a kind that is not understood: left out with a note */
    ZF_DS_ODD,
    /* a vector over the parameters of the group */
    ZF_DS_FLAT,
    /* one value for the whole group: a tensor of one element, a Python int, a Python float */
    ZF_DS_SCALAR,
    ZF_DS_INT,
    ZF_DS_FLOAT,
};
struct ds_state {
    struct ds_name key;
    enum ds_state_kind kind;
    struct ds_flat flat; /* FLAT; SCALAR: one element */
    int64_t i;
    double f;
};

/* An entry of param_slice_mappings: a piece of a parameter in a rank's partition. */
struct ds_slice {
    struct ds_name name;
    uint64_t start, n; /* elements */
};

/* One flat vector of one rank. */
struct ds_part {
    uint32_t dp;         /* the rank */
    uint64_t partitions; /* into which its group is cut, 0 = not recorded */
    bool moe;            /* the group holds experts */
    /* data-parallel ranks that share the group, in the order of the partitions (stage 3 with
     * experts); NULL = not recorded */
    const uint32_t *ranks;
    uint32_t n_ranks;
    struct ds_slice *slice; /* [n_slices]; only while nothing else names the parameters */
    uint32_t n_slices;
    struct ds_flat master;
    struct ds_state *state;
    uint32_t n_states;
    const uint64_t *pad; /* elements skipped behind parameter i, [n_pads]; NULL = none */
    uint32_t n_pads;
    bool elastic; /* states are saved without padding, like the master */
    bool muon;
};

struct ds_optim {
    const char *path;
    uint32_t dp;
    bool lost;
    struct ds_part *part; /* [n_parts] */
    uint32_t n_parts;
    /* Stage 1 before 0.4 cut each partition once more: the same groups' later sub-partitions,
     * [n_later], of which a group may have fewer. */
    struct ds_optim *later;
    uint32_t n_later;
    const uint32_t *n_cuts; /* [n_parts] sub-partitions of each group; NULL = one */
    int stage;              /* 1, 2, 3; 0 = not recorded (BF16_Optimizer) */
    bool stage3;            /* each parameter is partitioned by itself */
    uint64_t partitions;    /* partition_count, the largest of all groups; 0 = not recorded */
    const char *version;    /* "" = not recorded */
    struct {
        bool known; /* the file has them */
        bool round_robin, zenflow, blocks;
    } config; /* of ds_config, as in ds_model */
    /* param_shapes, where this file has them (before 0.6) */
    struct ds_shapes *group;
    uint32_t n_groups;
};

/* Reads an optimizer-states file.  Everything is copied or held; the pickle is freed.
 * Errors: ZF_E_FORMAT not an optimizer-states file, a value of the wrong kind; ZF_E_UNSUPPORTED a
 * kind that is not read; those of zf_torch_open. */
bool ds_optim_read(struct ds_save *ds, const struct ds_file *f, struct ds_optim *out,
                   struct zf_err *err) ZF_CHECKED;

#endif
