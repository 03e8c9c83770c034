/* SPDX-License-Identifier: Apache-2.0 */
/* A save while it is opened: names, files, what the model-states and optimizer files hold, and the ranks that are made of
 * them.  The functions that fill these are in steps.h. */
#ifndef FORMAT_DEEPSPEED_DS_H
#define FORMAT_DEEPSPEED_DS_H

#include <zf/assemble/agree.h>
#include <zf/assemble/names.h>
#include <zf/assemble/open_opts.h>
#include <zf/assemble/take.h>
#include <zf/assemble/tensor_ref.h>
#include <zf/assemble/torch_ahead.h>

/* ---- names of parameters and states ---- */

/* Some name of the checkpoint: any bytes. */
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

/* Is it there, and True? */
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
    uint32_t dp;      /* data-parallel rank, of an expp_rank_* file the expert-parallel one; 0 for
                       * mp_rank_* files */
    uint32_t mp;      /* model-parallel rank */
    uint32_t writer;  /* "….pt-W.N" of the parallel writer; 0 without */
    uint32_t layer;   /* of a pipeline layer's file, whose mp is the tensor-parallel rank; of an
                       * expert's file, among the layers with experts */
    uint32_t expert;  /* in the whole model */
    const char *prefix, *form; /* its name: "", "bf16_" or "fp16_", and a pattern of files.c */
};
#define DS_FILE_NAME 100u /* bytes of a name */

struct ds_dir {
    struct ds_file *model, *optim; /* sorted by (mp, dp), without doubles */
    uint32_t n_model, n_optim;
    uint32_t n_mp;          /* model-parallel ranks seen in any name */
    bool by_rank;           /* model states of every rank: stage 3 */
    struct ds_file *expert; /* of experts, sorted by (mp, layer, expert) */
    uint32_t n_experts;
    struct ds_file *expp; /* of the optimizers of expert-parallel ranks, sorted by (mp, dp) */
    uint32_t n_expp;
    struct ds_file *layer; /* of pipeline layers, sorted by (mp, layer) */
    uint32_t n_layers;
    bool layer_model;      /* their names have a tensor-parallel rank */
    const char *swap;      /* the folder of NVMe swap files, or NULL */
    const char *universal; /* the folder of a universal checkpoint, or NULL */
};

/* ---- the save ---- */

struct ds_save {
    struct zf_store *run; /* the directory that was pointed at; may be the tag itself */
    struct zf_store *st;  /* the tag directory */
    const struct zf_open_opts *o;
    struct zf_build *b;
    struct zf_arena *a; /* work memory, gone once the tensors are drafted */
    struct ds_dir dir;
    struct zf_torch_ahead files; /* of st: model and optimizer states */
    struct zf_keeper keep;       /* of the tensors of every file, until they are drafted */
    bool want_slices;            /* read param_slice_mappings: nothing else names the parameters */
    uint64_t swap_unit[2];       /* bytes to a multiple of which swap files are rounded up */
    uint64_t n_ranks;   /* model-parallel ranks as recorded, which may have no files; 0: unknown */
    uint64_t swap_rank; /* global rank that the swap folder of the file being read is named after */
    uint32_t tp, pp;    /* ranks along the tensor and the pipeline axis: n_mp = tp * pp */
    struct ds_rank *rank; /* files of it are being read */
    /* Values that every file of one save repeats: of the file read last, and of the job (the first model-states file);
     * and steps, which optimizer files alone have. */
    struct zf_agree *file_values, *job_values, *steps_values, *job_steps;
    bool shown_model, shown_optim; /* state/ has the settings of such a file */
};

/* Does the failure name its file already?  ('!' begins a place inside one.) */
static inline bool ds_err_named(const struct zf_err *err)
{
    return err->path[0] != '\0' && err->path[0] != '!';
}

/* ---- model states ---- */

/* One of a layer's fused tensors. */
struct ds_fused {
    struct ds_name name; /* of the whole and of each shard of it */
    uint32_t ndim;
    const uint64_t *shape; /* [ndim] of the whole; NULL = not recorded: n_ep times the shard */
    uint32_t n_ep;         /* ranks of expert parallelism */
    const uint64_t *first; /* [n_ep] the first expert of each … */
    const uint64_t *n;     /* [n_ep] … and how many it has */
    uint32_t ep_rank;      /* of the file that says all this */
};

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

/* One key of `module`, or of the file of a layer, an expert or gathered weights. */
struct ds_entry {
    struct ds_name name;
    const struct ds_file *file; /* of a layer or an expert, or NULL */
    uint32_t same; /* the entry of the same file that it is a second name of, or itself (ties.c) */
    bool tensor;   /* view is filled; else some other value (None, bytes …) */
    bool lost;     /* degraded: a tensor that cannot be read, as a note says */
    bool trained;  /* of an expert: the optimizer has it, by some name */
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
    uint32_t n_entries, cap_entries; /* cap: room where it grows */
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
    bool blocks;            /* ranks of an expert are contiguous (steps.h) */
    struct ds_fused *fused; /* sorted by name */
    uint32_t n_fused;
};

/* How many model-parallel ranks the file says that there are; 0 = it does not. */
static inline uint64_t ds_model_ranks(const struct ds_model *m)
{
    return m->tp > 0 ? (uint64_t)m->tp * m->pp : m->mp_world;
}

/* ---- optimizer states ---- */

/* Part of a flat vector: n elements packed from byte `off` of src. */
struct ds_flat {
    struct zf_source *src; /* borrowed from ds_save.keep; NULL when n is 0 */
    uint64_t off, n;
    enum zf_dtype dtype;
    uint64_t swapped; /* bytes of the swap file, whose padding n counts, too; 0: no swap file */
    /* degraded: n is 0 because this file (its rank's or a swap file) cannot be used; or NULL */
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

/* One flat vector of one rank, or a sub-partition of it. */
struct ds_part {
    const char *path;    /* of its file, and which sub-partition it is */
    uint32_t dp;         /* the rank */
    bool lost;           /* of a lost file: then no states are known, and master.lost says why */
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
    bool lost; /* degraded: as why says; its parts are `gone` */
    struct zf_lost why;
    struct ds_part gone;
    /* [n_parts][n_cuts[g]] vectors of the groups: stage 1 before 0.4 cut each partition once more. */
    struct ds_part **part;
    uint32_t n_parts;
    const uint32_t *n_cuts; /* [n_parts]; NULL = one sub-partition of each group */
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

/* Sub-partition i of group g. */
static inline const struct ds_part *ds_optim_part(const struct ds_optim *o, uint32_t g, uint32_t i)
{
    return o->lost ? &o->gone : &o->part[g][i];
}

/* ---- model-parallel ranks ---- */

/* A parameter group: what its flat vectors hold, and who has a part of them. */
struct ds_group {
    uint32_t index; /* in the optimizer files of its ranks */
    uint32_t n;
    struct ds_param *param;      /* [n] in the order of the vectors */
    uint64_t *len;               /* [n] their elements */
    const struct ds_part **part; /* [n_ranks] in the order of the partitions; not all are lost */
    uint32_t n_ranks;            /* 0: there are no optimizer files */
};

struct ds_rank {
    struct ds_save *save;
    uint32_t mp, stage, tensor; /* its number, and its place in the mesh */
    char tree[24];              /* where its tensors are drafted; "" = the root */
    const struct ds_file *model_file, *optim_file; /* of this rank */
    uint32_t n_model_files, n_optim_files;
    struct ds_model model; /* data-parallel rank 0's; degraded: of the first that can be read */
    const struct ds_file *model_from; /* its file */
    bool lost;                        /* degraded: no model-states file of the rank can be read */
    bool optim_only; /* no model-states file is readable; names come from the optimizer files */
    struct ds_optim *optim; /* [n_dp] in the order of the ranks; NULL: there are no files */
    uint32_t n_dp;          /* data-parallel ranks */
    struct ds_group *group;
    uint32_t n_groups;
    /* The parameters of all groups, where one mapping names them (before 0.5.4), frozen ones perhaps among
     * them (before 0.4.3); or NULL. */
    const struct ds_shapes *merged;
    bool placed;            /* … and the groups are what the weights prove, in their real order */
    bool blocks;            /* ranks of an expert are contiguous (steps.h) */
    bool renumbered;        /* experts have other numbers in their files than here */
    struct ds_model expert; /* entries: the 16-bit weights of the experts' files */
    bool by_slices;         /* param_slice_mappings name the parameters */
    bool weights_only; /* masters are unavailable or unproven: the root shows those of `module` */
    bool numbered;     /* what its optimizer holds has no names (numbered.c) */
    /* without param_shapes: the tied modules' parameters, by their layers' files */
    struct ds_shapes tied;
    struct ds_name *own; /* [n_own] trained parameters that are in no group (stage 0) */
    uint32_t n_own;
    struct zf_agree *model_values, *optim_values; /* of its first files; see ds_save */
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
    struct ds_model has;     /* entries: under the names of the file, which lack the layer's own */
    struct ds_rank *owner;   /* NULL: no names of parameters or buffers speak of it */
    struct ds_name tied_key; /* "tied_modules.<key>.": the tied module this file belongs to */
    struct ds_name
        mismatch_key; /* a tied module of the same names and shapes whose masters differ */
};

struct ds_layers {
    struct ds_layer *layer; /* [ds->dir.n_layers] in the order of the files */
    const struct ds_ranks *all;
};

#endif
