/* SPDX-License-Identifier: Apache-2.0 */
/* What the pieces of the DeepSpeed reader know about one save.  All of it lives in the work arena
 * and is gone once the tensors are drafted. */
#ifndef FORMAT_DEEPSPEED_DS_H
#define FORMAT_DEEPSPEED_DS_H

#include <zf/assemble/agree.h>
#include <zf/assemble/torch_ahead.h>
#include <zf/assemble/values.h>
#include <zf/format.h>

/* Some name of the checkpoint: any bytes. */
struct zf_ds_name {
    const char *p;
    uint32_t n;
};
static inline struct zf_spot ds_spot(const char *set, struct zf_ds_name name)
{
    return (struct zf_spot){set, name.p, name.n};
}

/* ---- ds_dir.c: the files of a tag directory ---- */

struct zf_ds_file {
    const char *path; /* in the tag's store */
    uint32_t dp;      /* data-parallel rank; 0 for mp_rank_* files */
    uint32_t mp;      /* model-parallel rank */
    uint32_t writer;  /* "….pt-W.N" of the parallel writer; 0 without */
    bool bf16;        /* "bf16_" in front */
};

struct zf_ds_dir {
    struct zf_ds_file *model, *optim; /* sorted by (mp, dp), without doubles */
    uint32_t n_model, n_optim;
    uint32_t n_mp;         /* model-parallel ranks seen in any name */
    bool by_rank;          /* model states of every rank: stage 3 */
    const char *experts;   /* an expert's file, or NULL */
    const char *layers;    /* a pipeline layer's file, or NULL */
    const char *swap;      /* the folder of NVMe swap files, or NULL */
    const char *universal; /* the folder of a universal checkpoint, or NULL */
};

/* Is this the name of one rank's file? */
bool zf_ds_dir_owns(const char *name);
/* A source that stands in a torch archive carries the name under which the archive was written:
 * "run/renamed.pt!zero_pp_rank_1_mp_rank_00_optim_states/data/0".  The rank must be that of the
 * file's path now.  Errors: ZF_E_FORMAT naming the other. */
bool zf_ds_dir_same_rank(const char *path, const char *source, struct zf_err *err) ZF_CHECKED;

/* Sorts the names of directory st.  Strings live in the arena.
 * Errors: ZF_E_FORMAT two files claim one rank; of the store; of the arena. */
bool zf_ds_dir_read(struct zf_store *st, struct zf_arena *a, struct zf_ds_dir *out,
                    struct zf_err *err) ZF_CHECKED;

/* ---- ds_model.c: model-states files ---- */

/* A trained parameter, in the order in which the flat vectors hold them. */
struct zf_ds_param {
    struct zf_ds_name name;
    uint32_t ndim;
    const uint64_t *shape;
    uint64_t n;   /* elements */
    bool columns; /* a matrix that stands in the flat vector column by column (ZenFlow) */
};

/* One flat vector's worth of them. */
struct zf_ds_shapes {
    struct zf_ds_param *param;
    uint32_t n;
};

/* One key of `module`. */
struct zf_ds_entry {
    struct zf_ds_name name;
    bool tensor; /* view is filled; else some other value (None, bytes …) */
    struct zf_tensor_ref view;
};

struct zf_ds_alias {
    struct zf_ds_name name, of;
};

/* This rank's slice of a frozen parameter. */
struct zf_ds_fragment {
    struct zf_ds_name name;
    struct zf_tensor_ref view;
};

struct zf_ds_model {
    const char *path;
    struct zf_ds_shapes *group; /* param_shapes */
    uint32_t n_groups;
    bool has_shapes;
    struct zf_ds_entry *entry; /* module, in file order */
    uint32_t n_entries;
    const uint32_t *by_name;   /* entries sorted by name, [n_entries] */
    struct zf_ds_name *buffer; /* sorted */
    uint32_t n_buffers;
    bool has_buffers;
    struct zf_ds_shapes frozen; /* frozen_param_shapes */
    bool has_frozen;
    struct zf_ds_fragment *fragment;
    uint32_t n_fragments;
    struct zf_ds_alias *alias;
    struct zf_ds_name *second; /* the names of alias, sorted */
    uint32_t n_aliases;
    int64_t steps; /* global_steps, -1 = not told */
    bool zenflow;
    const char *version;
};

/* ---- ds_optim.c: optimizer-states files ---- */

/* Part of a flat vector: n elements packed from byte `off` of src. */
struct zf_ds_flat {
    struct zf_source *src; /* borrowed from zf_ds.keep; NULL when n is 0 */
    uint64_t off, n;
    enum zf_dtype dtype;
    uint64_t swapped; /* bytes of the swap file, whose padding n counts, too; 0: no swap file */
};

enum zf_ds_state_kind {
    /* belongs to no parameter: left out */
    ZF_DS_NONE,
    /* a vector over the parameters of the group */
    ZF_DS_FLAT,
    /* one value for the whole group: a tensor of one element, a Python int, a Python float */
    ZF_DS_SCALAR,
    ZF_DS_INT,
    ZF_DS_FLOAT,
};
struct zf_ds_state {
    struct zf_ds_name key;
    enum zf_ds_state_kind kind;
    struct zf_ds_flat flat; /* FLAT; SCALAR: one element */
    int64_t i;
    double f;
};

/* One flat vector of one rank. */
struct zf_ds_part {
    uint32_t dp; /* the rank */
    struct zf_ds_flat master;
    struct zf_ds_state *state;
    uint32_t n_states;
    const uint64_t *pad; /* elements skipped behind parameter i, [n_pads]; NULL = none */
    uint32_t n_pads;
    bool lean; /* states are cut like the master (elastic) */
    bool muon;
};

struct zf_ds_rank {
    const char *path;
    uint32_t dp;
    bool lost;
    struct zf_ds_part *part; /* [n_parts] */
    uint32_t n_parts;
    int stage;           /* 1, 2, 3; 0 = not told (BF16_Optimizer) */
    bool sliced;         /* each parameter is cut by itself (stage 3) */
    uint64_t partitions; /* partition_count, 0 = not told */
    const char *version; /* "" = not told */
    /* param_shapes, where they stand in this file (before 0.6) */
    struct zf_ds_shapes *group;
    uint32_t n_groups;
};

/* ---- the save as a whole ---- */

/* A parameter group: what its flat vectors hold, and who has a part of them. */
struct ds_group {
    uint32_t index; /* in the optimizer files of its ranks */
    uint32_t n;
    struct zf_ds_param *param;      /* [n] in the order of the vectors */
    uint64_t *len;                  /* [n] their elements */
    const struct zf_ds_rank **rank; /* [n_ranks] in the order of the partitions; not all are lost */
    uint32_t n_ranks;               /* 0: there are no optimizer files */
};

struct zf_ds {
    struct zf_store *run; /* what the user pointed at; may be the tag itself */
    struct zf_store *st;  /* the tag directory */
    const struct zf_open_opts *o;
    struct zf_build *b;
    struct zf_arena *a; /* work memory */
    struct zf_torch_ahead files; /* of st: model and optimizer states */
    struct zf_ds_dir dir;
    struct zf_ds_model model; /* rank 0's */
    struct zf_ds_rank *rank;  /* [n_ranks]: data-parallel ranks, dense */
    uint32_t n_ranks;
    struct ds_group *group;
    uint32_t n_groups;
    bool plain;            /* no masters: the root is what `module` holds */
    const uint32_t *tie;   /* of the entries of model */
    struct zf_keeper keep; /* of the tensors of every file, until they are drafted */
    uint64_t swap_unit[2]; /* bytes to a multiple of which swap files are rounded up */
    struct zf_agree *said; /* what the file read last must share */
    struct zf_agree *said_model, *said_optim; /* the same of the first file of each kind */
};

/* Reads a model-states file.  Everything is copied or held; the pickle is freed.
 * Errors: ZF_E_FORMAT not a model-states file, a value of the wrong kind; ZF_E_UNSUPPORTED a
 * parallelism that is not read; those of zf_torch_open. */
bool zf_ds_model_read(struct zf_ds *ds, const struct zf_ds_file *f, struct zf_ds_model *out,
                      struct zf_err *err) ZF_CHECKED;
/* Sorts the entries of m for zf_ds_model_find. */
bool zf_ds_model_index(struct zf_ds *ds, struct zf_ds_model *m, struct zf_err *err) ZF_CHECKED;
/* The entry of that name, or NULL. */
const struct zf_ds_entry *zf_ds_model_find(const struct zf_ds_model *m, struct zf_ds_name name);
/* Reads the mapping (or list of mappings) `v` of names to shapes. */
bool zf_ds_model_shapes(struct zf_ds *ds, const struct zf_pv *v, struct zf_ds_shapes **out,
                        uint32_t *n_out, struct zf_err *err) ZF_CHECKED;

/* Of file[n], sorted, those of ranks below ds->n_ranks will be read next, in their order: they are
 * opened ahead. */
bool zf_ds_expect(struct zf_ds *ds, const struct zf_ds_file *file, uint32_t n,
                  struct zf_err *err) ZF_CHECKED;

/* Reads an optimizer-states file, likewise. */
bool zf_ds_optim_read(struct zf_ds *ds, const struct zf_ds_file *f, struct zf_ds_rank *out,
                      struct zf_err *err) ZF_CHECKED;

/* ---- ds_agree.c: what all files of a save repeat ---- */

/* One file that is being read. */
struct zf_ds_said {
    struct zf_agree *list;
    struct zf_torch *torch;
};
/* Lists in ds->said what the open file t must have in common with the others. */
bool zf_ds_agree_read(struct zf_ds *ds, struct zf_torch *t, const char *path, bool model,
                      struct zf_err *err) ZF_CHECKED;
/* Compares the file read last with the first of its kind, which is compared with the first of the
 * other kind.  Errors: ZF_E_FORMAT naming both files and both values. */
bool zf_ds_agree_check(struct zf_ds *ds, bool model, struct zf_err *err) ZF_CHECKED;
/* Compares the model-states files that nothing else is read from. */
bool zf_ds_agree_models(struct zf_ds *ds, struct zf_err *err) ZF_CHECKED;

/* Drafts the trained parameters and their optimizer states from the files below zero/ of a universal checkpoint. */
bool zf_ds_universal_draft(struct zf_ds *ds, struct zf_err *err) ZF_CHECKED;

/* The same for a save without ZeRO, whose masters have no names: what can be proved. */
bool zf_ds_zero0_draft(struct zf_ds *ds, struct zf_err *err) ZF_CHECKED;

/* tie[i], [n]: the entry of one file that entry i is a second name of, or i.  The trained
 * parameters are drafted.  NULL: no memory. */
const uint32_t *zf_ds_ties_find(struct zf_ds *ds, const struct zf_ds_entry *entry, uint32_t n,
                                struct zf_err *err) ZF_CHECKED;
/* Is it a second name by shared_params? */
bool zf_ds_ties_listed(const struct zf_ds_model *m, struct zf_ds_name name);

/* Drafts what has no flat vector: buffers, frozen parameters, tied names. */
bool zf_ds_rest_draft(struct zf_ds *ds, struct zf_err *err) ZF_CHECKED;
/* Drafts the 16-bit weights. */
bool zf_ds_stored_draft(struct zf_ds *ds, struct zf_err *err) ZF_CHECKED;

/* Adds what is no weight from the first model-states and optimizer-states file (ds_state.c). */
bool zf_ds_state_model(struct zf_ds *ds, struct zf_torch *t, const char *path,
                       struct zf_err *err) ZF_CHECKED;
bool zf_ds_state_optim(struct zf_ds *ds, struct zf_torch *t, const char *path,
                       struct zf_err *err) ZF_CHECKED;

/* Does the failure name its file already?  ('!' begins a place inside one.) */
static inline bool zf_ds_err_named(const struct zf_err *err)
{
    return err->path[0] != '\0' && err->path[0] != '!';
}

/* ---- helpers of all of them (ds_util.c) ---- */

/* Copies a text value into the work arena;
 * false (ZF_E_FORMAT, naming `what`) when it is no text. */
bool zf_ds_name_of(struct zf_ds *ds, const struct zf_pv *v, const char *what,
                   struct zf_ds_name *out, struct zf_err *err) ZF_CHECKED;
/* A copy of a text value, "" for anything else; NULL: no memory. */
const char *zf_ds_text_of(struct zf_ds *ds, const struct zf_pv *v, struct zf_err *err) ZF_CHECKED;
bool zf_ds_name_eq(struct zf_ds_name a, struct zf_ds_name b);
int zf_ds_name_cmp(struct zf_ds_name a, struct zf_ds_name b);
/* Lists may be as long as a file makes them: they are sorted once and then searched. */
void zf_ds_name_sort(struct zf_ds_name *list, uint32_t n);
bool zf_ds_name_listed(const struct zf_ds_name *sorted, uint32_t n, struct zf_ds_name name);
/* state[id] of a torch optimizer's state dict, whose keys are numbers, or NULL. */
const struct zf_pv *zf_ds_by_id(const struct zf_pv *state, uint64_t id);
/* Degraded: handles a failure to prove which masters are whose.  The weights are then those of
 * `module`, and a note says why.  Else it gives the failure back. */
bool zf_ds_leave_out(struct zf_ds *ds, struct zf_err *err) ZF_CHECKED;
/* The tree path of an optimizer state's set: "optim/<key>". */
const char *zf_ds_optim_set(struct zf_ds *ds, struct zf_ds_name key, struct zf_err *err) ZF_CHECKED;

#endif
