/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a save while it is opened: names, files, the contents of model-states and optimizer
 * files, and the ranks made from them.  The functions that fill these are in steps.h. */
#ifndef FORMAT_DEEPSPEED_DS_H
#define FORMAT_DEEPSPEED_DS_H

#include <zf/assemble/agree.h>
#include <zf/assemble/names.h>
#include <zf/assemble/open_opts.h>
#include <zf/assemble/take.h>
#include <zf/assemble/tensor_ref.h>
#include <zf/assemble/torch_ahead.h>

/* ---- names of parameters and states ---- */

/* A name in the checkpoint: any bytes. */
struct ds_name {
    const char *p;
    uint32_t n;
};

static inline struct zf_spot ds_spot(const char *set, struct ds_name name)
{
    return (struct zf_spot){set, name.p, name.n};
}

/* Number of bytes of a name that a message shows. */
static inline int ds_name_shown(struct ds_name name)
{
    return name.n < 100 ? (int)name.n : 100;
}

/* Is the value present, and True? */
static inline bool ds_is_true(const struct zf_pv *v)
{
    bool yes = false;

    return zf_pv_bool(v, &yes) && yes;
}

/* ---- files ---- */

enum ds_kind { DS_MODEL, DS_LAYER, DS_EXPERT, DS_EXPP, DS_OPTIM };

struct ds_file {
    enum ds_kind kind;
    const char *path; /* in the tag's store */
    uint32_t dp;      /* data-parallel rank (expp_rank_* files: expert-parallel rank); 0 for
                       * mp_rank_* files */
    uint32_t mp;      /* model-parallel rank */
    uint32_t writer;  /* "….pt-W.N" of the parallel writer; 0 without */
    uint32_t layer;   /* layer files: the pipeline layer (mp is then the tensor-parallel rank);
                       * expert files: index among the layers with experts */
    uint32_t expert;  /* index in the whole model */
    const char *prefix, *form; /* its name: "", "bf16_" or "fp16_", and a pattern of files.c */
};
#define DS_FILE_NAME 100u /* bytes for a file name */

struct ds_dir {
    struct ds_file *model, *optim; /* sorted by (mp, dp), without duplicates */
    uint32_t n_model, n_optim;
    uint32_t n_mp;          /* number of model-parallel ranks in the file names */
    bool by_rank;           /* every rank has a model-states file: stage 3 */
    struct ds_file *expert; /* files of experts, sorted by (mp, layer, expert) */
    uint32_t n_experts;
    struct ds_file *expp; /* optimizer files of expert-parallel ranks, sorted by (mp, dp) */
    uint32_t n_expp;
    struct ds_file *layer; /* files of pipeline layers, sorted by (mp, layer) */
    uint32_t n_layers;
    bool layer_model;      /* the names of layer files contain a tensor-parallel rank */
    const char *swap;      /* the folder of NVMe swap files, or NULL */
    const char *universal; /* the folder of a universal checkpoint, or NULL */
};

/* ---- the save ---- */

struct ds_save {
    struct zf_store *run; /* the directory that the user named; may be the tag directory */
    struct zf_store *st;  /* the tag directory */
    const struct zf_open_opts *o;
    struct zf_build *b;
    struct zf_arena *a; /* work memory, gone once the tensors are drafted */
    struct ds_dir dir;
    struct zf_torch_ahead files; /* model and optimizer states in st */
    struct zf_keeper keep;       /* holds the sources of all tensors until they are drafted */
    bool want_slices;            /* read param_slice_mappings: nothing else names the parameters */
    uint64_t swap_unit[2];       /* swap files are rounded up to a multiple of either, in bytes */
    uint64_t n_ranks;   /* recorded model-parallel ranks, some perhaps without files; 0: unknown */
    uint64_t swap_rank; /* global rank in the name of the swap folder of the current file */
    uint32_t tp, pp;    /* tensor- and pipeline-parallel degree: n_mp = tp * pp */
    struct ds_rank *rank; /* the rank whose files are being read */
    /* Values that every file of one save repeats: of the file read last, and of the job (the first model-states file);
     * and step counts, which are only in optimizer files. */
    struct zf_agree *file_values, *job_values, *steps_values, *job_steps;
    bool shown_model, shown_optim; /* the settings of such a file are in state/ already */
};

/* Does the error name its file already?  ('!' separates a file from a path inside it.) */
static inline bool ds_err_named(const struct zf_err *err)
{
    return err->path[0] != '\0' && err->path[0] != '!';
}

/* ---- model states ---- */

/* A tensor of all experts of a layer (AutoEP), cut over expert-parallel ranks. */
struct ds_fused {
    struct ds_name name; /* of the full tensor and of each shard */
    uint32_t ndim;
    const uint64_t *shape; /* [ndim] of the full tensor; NULL = not recorded: n_ep equal shards */
    uint32_t n_ep;         /* expert-parallel ranks */
    const uint64_t *first; /* [n_ep] first expert of each rank … */
    const uint64_t *n;     /* [n_ep] … and its number of experts */
    uint32_t ep_rank;      /* expert-parallel rank of the file; UINT32_MAX = not recorded */
};

/* A trained parameter; arrays of them are in the order of the flat buffer. */
struct ds_param {
    struct ds_name name;
    uint32_t ndim;
    const uint64_t *shape;
    uint64_t n;   /* elements */
    bool columns; /* a matrix stored column by column in the flat buffer (ZenFlow) */
    /* Experts: the name of the 16-bit weight, if it differs from `name`; else p = NULL. */
    struct ds_name weight;
    /* AutoEP: shape [ndim] of the tensor of all experts; this shard begins at expert `first`.
     * NULL = not fused. */
    const uint64_t *whole;
    uint64_t first;
};

/* The parameters of one flat buffer. */
struct ds_shapes {
    struct ds_param *param;
    uint32_t n;
};

/* One key of `module`, or of the file of a layer, an expert or gathered weights. */
struct ds_entry {
    struct ds_name name;
    const struct ds_file *file; /* its layer or expert file, or NULL */
    uint32_t same; /* index of the entry that it is an alias of, or its own index (ties.c) */
    bool tensor;   /* view is filled; else some other value (None, bytes …) */
    bool lost;     /* degraded: a tensor that cannot be read (noted) */
    bool trained;  /* experts: it is in the optimizer, perhaps under another name */
    struct zf_tensor_ref view;
};

struct ds_alias {
    struct ds_name name, of;
};

struct ds_model {
    const char *path;
    bool read; /* the file could be read: a later failure means that it is of another save */
    struct ds_shapes *group; /* param_shapes */
    uint32_t n_groups;
    bool has_shapes;
    struct ds_entry *entry;          /* module, in file order */
    uint32_t n_entries, cap_entries; /* cap: room where it grows */
    const uint32_t *by_name;         /* [n_entries] indices of entries, sorted by name */
    struct ds_name *buffer;          /* sorted */
    uint32_t n_buffers;
    bool has_buffers;
    struct ds_shapes frozen;   /* frozen_param_shapes */
    struct ds_entry *fragment; /* this rank's slices of frozen parameters */
    uint32_t n_fragments;
    struct ds_alias *alias;
    struct ds_name *second; /* the names in `alias`, sorted */
    uint32_t n_aliases;
    bool pipeline;     /* `module` is None: the weights are in layer files */
    uint64_t mp_world; /* mp_world_size; 0 = not recorded */
    uint32_t tp, pp;   /* checkpoint_parallel_dimensions; 0 = not recorded */
    uint64_t affine;   /* digest of affine_map; 0 = there is none */
    int64_t steps;     /* global_steps, -1 = not recorded */
    int64_t skipped;   /* skipped_steps, included in `steps` */
    uint32_t minor;    /* ds_version is 0.minor.patch; 0 = another version, or not recorded */
    uint32_t patch;
    bool zenflow;
    bool round_robin;       /* round_robin_gradients */
    bool quantized;         /* zero_quantized_nontrainable_weights: the scales are not saved */
    bool super_offload;     /* the moments are in another process, and not saved */
    bool moe;               /* there are layers with experts */
    bool blocks;            /* ranks that share an expert are contiguous (steps.h) */
    struct ds_fused *fused; /* sorted by name */
    uint32_t n_fused;
};

/* The number of model-parallel ranks that the file records; 0 = not recorded. */
static inline uint64_t ds_model_ranks(const struct ds_model *m)
{
    return m->tp > 0 ? (uint64_t)m->tp * m->pp : m->mp_world;
}

/* ---- optimizer states ---- */

/* Part of a flat buffer: n contiguous elements at byte `off` of src. */
struct ds_flat {
    struct zf_source *src; /* borrowed from ds_save.keep; NULL when n is 0 */
    uint64_t off, n;
    enum zf_dtype dtype;
    uint64_t swapped; /* bytes of the swap file, whose padding n includes; 0: no swap file */
    /* degraded: the unusable file (the rank's or a swap file) because of which n is 0; or NULL */
    const struct zf_lost *lost;
};

enum ds_state_kind {
    /* belongs to no parameter: left out */
    ZF_DS_NONE,
    /* a tensor of an unsupported kind: left out with a note */
    ZF_DS_ODD,
    /* a flat buffer over the parameters of the group */
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

/* One rank's partition of a flat buffer, or a sub-partition of it. */
struct ds_part {
    const char *path;    /* its file, and the sub-partition */
    uint32_t dp;         /* data-parallel rank */
    bool lost;           /* its file is lost: states are unknown, and master.lost says why */
    uint64_t partitions; /* partitions of the group, 0 = not recorded */
    bool moe;            /* the group holds experts */
    /* data-parallel ranks that share the group, in the order of the partitions (stage 3 with
     * experts); NULL = not recorded */
    const uint32_t *ranks;
    uint32_t n_ranks;
    struct ds_slice *slice; /* [n_slices]; only if nothing else names the parameters */
    uint32_t n_slices;
    struct ds_flat master;
    struct ds_state *state;
    uint32_t n_states;
    const uint64_t *pad; /* [n_pads] elements of padding after parameter i; NULL = none */
    uint32_t n_pads;
    bool elastic; /* states are saved without padding, like the master */
    bool muon;
};

struct ds_optim {
    const char *path;
    uint32_t dp;
    bool lost; /* degraded: the file is lost, for the reason `why`; its parts are `gone` */
    struct zf_lost why;
    struct ds_part gone;
    /* [n_parts][n_cuts[g]] partitions of the groups; stage 1 before 0.4 divided each into sub-partitions. */
    struct ds_part **part;
    uint32_t n_parts;
    const uint32_t *n_cuts; /* [n_parts]; NULL = one sub-partition of each group */
    int stage;              /* 1, 2, 3; 0 = not recorded (BF16_Optimizer) */
    bool stage3;            /* each parameter is partitioned separately */
    uint64_t partitions;    /* partition_count, the largest of all groups; 0 = not recorded */
    const char *version;    /* "" = not recorded */
    struct {
        bool known; /* the file has a ds_config */
        bool round_robin, zenflow, blocks;
    } config; /* settings in ds_config, as in ds_model */
    /* param_shapes, where this file has them (before 0.6) */
    struct ds_shapes *group;
    uint32_t n_groups;
};

/* Sub-partition i of group g. */
static inline const struct ds_part *ds_optim_part(const struct ds_optim *o, uint32_t g, uint32_t i)
{
    return o->lost ? &o->gone : &o->part[g][i];
}

/* ---- model-parallel ranks ---- */

/* A parameter group: the parameters in its flat buffers, and the ranks that have partitions of them. */
struct ds_group {
    uint32_t index; /* in the optimizer files of its ranks */
    uint32_t n;
    struct ds_param *param; /* [n] in the order of the flat buffers */
    uint64_t *len;          /* [n] elements of each parameter */
    const struct ds_part *
        *part;        /* [n_ranks] in the order of the partitions; at least one not lost */
    uint32_t n_ranks; /* 0: there are no optimizer files */
};

struct ds_rank {
    struct ds_save *save;
    uint32_t mp, stage, tensor; /* model-parallel, pipeline-parallel and tensor-parallel rank */
    char tree[24];              /* the tree of its tensors; "" = the root */
    const struct ds_file *model_file, *optim_file; /* of this rank */
    uint32_t n_model_files, n_optim_files;
    struct ds_model model; /* of data-parallel rank 0; degraded: of the first readable file */
    const struct ds_file *model_from; /* the file of `model` */
    bool lost;                        /* degraded: no model-states file of the rank can be read */
    bool optim_only; /* no model-states file is readable; names come from the optimizer files */
    struct ds_optim *optim; /* [n_dp] in the order of the ranks; NULL: there are no files */
    uint32_t n_dp;          /* data-parallel ranks */
    struct ds_group *group;
    uint32_t n_groups;
    /* The parameters of all groups, if a single mapping names them (before 0.5.4), perhaps with frozen
     * ones (before 0.4.3); else NULL. */
    const struct ds_shapes *merged;
    bool placed;     /* with `merged`: the groups, and their order, are proved by the weights */
    bool blocks;     /* ranks that share an expert are contiguous (steps.h) */
    bool renumbered; /* experts have other indices in their files than here */
    struct ds_model expert; /* entries: the 16-bit weights in expert files */
    bool by_slices;         /* param_slice_mappings name the parameters */
    bool
        weights_only; /* masters are unavailable or unproven: the root shows the weights of `module` */
    bool numbered;    /* its optimizer's states have no names (numbered.c) */
    /* without param_shapes: the parameters of tied modules, found in layer files */
    struct ds_shapes tied;
    struct ds_name *own; /* [n_own] trained parameters that are in no group (stage 0) */
    uint32_t n_own;
    struct zf_agree *model_values, *optim_values; /* of its first files; see file_values */
    bool compared;             /* the model-states files were compared early … */
    struct zf_err compare_err; /* … with this result, reported after the parameters (zero3.c) */
};

/* The model-parallel ranks of a save. */
struct ds_ranks {
    struct ds_rank *rank; /* [n] sorted by mp */
    uint32_t n;
};

/* ---- pipeline layers ---- */

struct ds_layer {
    const struct ds_file *file;
    struct ds_model has;     /* entries: named as in the file, without the layer's number */
    struct ds_rank *owner;   /* NULL: no recorded parameter or buffer is in this layer */
    struct ds_name tied_key; /* "tied_modules.<key>.": the tied module that the file belongs to */
    struct ds_name
        mismatch_key; /* a tied module with the same names and shapes but different masters */
};

struct ds_layers {
    struct ds_layer *layer; /* [ds->dir.n_layers] in the order of the files */
    const struct ds_ranks *all;
};

#endif
