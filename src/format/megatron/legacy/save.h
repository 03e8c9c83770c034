/* SPDX-License-Identifier: Apache-2.0 */
/* A legacy save while it is opened: descriptions of the files' contents, which outlive their pickles, and the
 * steps of opening the save in legacy.c's order, each in a file of its own. */
#ifndef FORMAT_MEGATRON_LEGACY_SAVE_H
#define FORMAT_MEGATRON_LEGACY_SAVE_H

#include <zf/assemble/agree.h>
#include <zf/assemble/open_opts.h>
#include <zf/assemble/tensor_ref.h>
#include <zf/assemble/torch_ahead.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

#include "../settings.h"
#include "files.h"

/* The meaning of a tensor's name in a rank's file: its layer and expert, its sharding over the
 * tensor-parallel ranks, and the size of the whole tensor. */

#define LEGACY_STACKS 6
#define LEGACY_MTP 2 /* the stack of multi-token prediction */

enum legacy_cut {
    LEGACY_COPY,    /* replicated */
    LEGACY_ROWS,    /* sharded along dimension 0 */
    LEGACY_GATED,   /* likewise, but a rank's rows are two halves [W_r | V_r] of [W | V] */
    LEGACY_COLUMNS, /* sharded along dimension 1 */
    LEGACY_EITHER,  /* sharded along dimension 0, or replicated: the size decides */
    LEGACY_ALONE, /* concatenated matrices of experts (GroupedMLP): several ranks cannot be joined */
};

struct legacy_text {
    const char *p;
    size_t n;
};

struct legacy_name {
    enum legacy_cut cut;
    uint32_t ndim;
    uint64_t shape[2]; /* of the joined tensor; 0 = unknown */
    /* The number of the layer within its file, and its position in the name; stack.n = 0: no layer. */
    struct legacy_text stack; /* "decoder.layers.", before the number */
    uint64_t layer;
    size_t layer_n;    /* digits */
    uint32_t stack_id; /* below LEGACY_STACKS */
    bool mtp;          /* layers are numbered over the whole model already */
    /* The same for the expert; at = 0: none. */
    uint64_t expert;
    size_t expert_at, expert_n;
};

/* False: the name is unknown, or its gated halves or heads are not laid out as in the table. */
bool legacy_names_parse(const char *p, size_t n, const struct megatron_settings *s,
                        struct legacy_name *out);

/* The stack whose last norm has this (zero-terminated) name; -1: none. */
int legacy_names_final(const char *p, size_t n);

/* The name of the embedding that this name is tied to; NULL: not a tied name. */
const char *legacy_names_tied(const char *p, size_t n);

/* One rank's value of a parameter: a tensor, or a number of its optimizer state. */
struct legacy_value {
    struct legacy_value *next;
    const char *key; /* LEGACY_WEIGHT, LEGACY_MASTER, or the state's: "exp_avg" */
    bool number;
    enum zf_dtype dtype; /* of a number: I64 or F64, stored in bits */
    uint64_t bits;
    struct zf_tensor_ref ref;
};
#define LEGACY_WEIGHT ""
#define LEGACY_MASTER "param" /* proved to be this parameter's */

/* Tensor-parallel attributes pickled with the fp32 master.
 * Source: megatron/core/tensor_parallel/layers.py (set_tensor_model_parallel_attributes). */
enum legacy_attr { LEGACY_ATTR_UNSAID, LEGACY_ATTR_WHOLE, LEGACY_ATTR_CUT };

/* A parameter of one rank. */
struct legacy_part {
    const char *name; /* in its file */
    size_t name_n;
    uint32_t file;              /* index in legacy_files */
    uint32_t chunk;             /* virtual pipeline chunk */
    struct legacy_value weight; /* the first of its values */
    enum legacy_attr attr;
    uint32_t attr_dim, attr_stride;
    /* Set by the join: */
    struct legacy_name is;
    uint64_t layer; /* number in the whole model */
    uint32_t whole; /* the model's tensor that this is a part of … */
    uint32_t slot;  /* … and the index of the part */
    uint32_t first; /* the first part in that slot, which this one is a copy of; or itself */
};

/* The part's value with that key, or NULL. */
static inline const struct legacy_value *legacy_find(const struct legacy_part *p, const char *key)
{
    const struct legacy_value *v = &p->weight;

    while (v && strcmp(v->key, key) != 0)
        v = v->next;
    return v;
}

/* A tensor of the model. */
struct legacy_whole {
    const char *name;
    size_t name_n;
    const char *tied; /* the name it may be tied to, or NULL */
    enum legacy_cut cut;
    enum zf_dtype dtype;
    uint32_t ndim;
    uint64_t shape[2];
    bool partial; /* some rank's optimizer may lack it: master and states are not shown */
    uint32_t n_slots;
    uint32_t *slot; /* [n_slots] number of its first part + 1; 0 = none yet */
};

struct legacy_join {
    struct zf_arena *a;
    const struct legacy_files *files;
    const struct megatron_settings *settings;
    struct legacy_part *part;
    uint32_t n_parts;
    uint32_t n_chunks; /* virtual pipeline chunks in every file */
    zf_vec(struct legacy_whole) whole;
    struct legacy_number *by_name;    /* uthash: index in `whole` by name */
    const char *stack[LEGACY_STACKS]; /* name of the stack; NULL: no file has a layer of it */
    uint64_t layers[LEGACY_STACKS];   /* number of layers in the whole model */
    uint64_t *begin; /* [LEGACY_STACKS * n_chunks * stages] number of each chunk's first layer */
};

/* A value whose parameter is unknown (key: its state), or a flat vector of many parameters. */
struct legacy_unowned {
    const char *name; /* the integer id, "1.0.3", or the path in distrib_optim.pt */
    struct legacy_value value;
};

#define LEGACY_NO_WRITER UINT64_MAX
struct legacy_rank {
    const struct legacy_file *file;
    uint64_t writer; /* args.rank, the process that wrote the file; or LEGACY_NO_WRITER */
    bool lost;       /* degraded: the file could not be read */
    uint32_t first_part, n_parts; /* range of the save's parts */
    uint32_t first_unowned, n_unowned;
    uint32_t first_flat, n_flats;
    uint32_t n_chunks;    /* virtual pipeline chunks */
    bool numbered;        /* the keys are "model0" …, not "model" */
    bool optim;           /* the file has an optimizer: the rank trains parameters */
    const char *unproven; /* why the masters have no names; NULL = they have, or there are none */
    const char *unmapped; /* a flat buffer without a map, and the reason; NULL: none */
    const char *odd;      /* a tensor of the model that could not be read, or NULL */
};

struct legacy_save {
    struct zf_store *st;
    const struct zf_open_opts *o;
    struct zf_build *b;
    struct zf_arena *a; /* work memory, freed once the tensors are added */
    struct zf_keeper keep;
    struct zf_torch_ahead ahead;
    struct zf_agree *said; /* the first rank's values that all ranks must repeat */
    struct megatron_settings settings;
    double version;    /* checkpoint_version; 0 = not recorded */
    uint32_t compares; /* comparisons left to map all flat buffers */
    struct legacy_files files;
    struct legacy_rank *rank; /* [files.n] */
    zf_vec(struct legacy_part) part;
    zf_vec(struct legacy_unowned) unowned;
    zf_vec(struct legacy_unowned) flat;
};

/* ---- of each rank ---- */

/* Reads the model and the optimizer of rank[i] out of its open file t; what is neither is drafted.
 * Errors: ZF_E_FORMAT; of the build. */
bool legacy_rank_read(struct legacy_save *ls, uint32_t i, struct zf_torch *t,
                      struct zf_err *err) ZF_CHECKED;
/* Of that: reads `optimizer` of the rank, whose parts have been read, and gives masters and states to the
 * parameters they are proved to be of; the others are unowned.
 * Errors: ZF_E_FORMAT a damaged tensor; of the arena. */
bool legacy_optim_read(struct legacy_save *ls, struct legacy_rank *r, struct zf_torch *t,
                       struct zf_err *err) ZF_CHECKED;
/* Reads distrib_optim.pt of rank[i], whose model has been read: the flat buffers of its distributed optimizer.
 * Errors: likewise. */
bool legacy_bucket_read(struct legacy_save *ls, uint32_t i, struct zf_torch *t,
                        struct zf_err *err) ZF_CHECKED;
/* Of both: adds a value to those of a part; its key is kept as it is.  Errors: of the arena. */
bool legacy_give(struct legacy_save *ls, uint32_t part, const struct legacy_value *value,
                 struct zf_err *err) ZF_CHECKED;

/* ---- of all ---- */

/* Detects rank folders that were copied or exchanged.
 * Errors: ZF_E_FORMAT naming both folders: the sentence is the reason why they are not joined; of
 * reading; ZF_E_NOMEM. */
bool legacy_swap_check(const struct legacy_save *ls, struct zf_err *err) ZF_CHECKED;
/* The tensors of all ranks' files as those of the whole model: fills `whole` and the join's fields of the parts,
 * by names, shapes and attributes alone.
 * Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED: the sentence is the reason why there is no join; of the arena. */
bool legacy_join(struct legacy_join *j, struct zf_err *err) ZF_CHECKED;
void legacy_join_fini(struct legacy_join *j);
/* The tensor of that name, or NULL. */
struct legacy_whole *legacy_join_find(const struct legacy_join *j, const char *name, size_t n);
/* Box k of part `slot` of w, where a part has `rows` x `columns` elements.  False: there are no more. */
struct legacy_box {
    uint64_t start[2], size[2]; /* in w */
    uint64_t row;               /* of the part, where the box begins */
};
bool legacy_join_box(const struct legacy_whole *w, uint32_t slot, const uint64_t *shape, uint32_t k,
                     struct legacy_box *out);
/* Compares the copies of weights.  A name that is tied keeps `tied` when its bytes are those of the
 * embedding, and loses it when they are not and args do not say that they should be.
 * Errors: ZF_E_FORMAT naming both files; of reading. */
bool legacy_same_weights(struct legacy_save *ls, struct legacy_join *j,
                         struct zf_err *err) ZF_CHECKED;
/* The same of masters and moments, which all parts of a tensor must have or none; where only a buffer
 * without a map is to blame, the tensor is marked as partial.
 * Errors: likewise: the sentence is the reason why they are not joined. */
bool legacy_same_optim(struct legacy_save *ls, struct legacy_join *j,
                       struct zf_err *err) ZF_CHECKED;
/* Drafts mp_rank_…/ of every rank: its tensors, the flat vectors below bucket/, and, when
 * asked, the values of its optimizer below optim/, which are shown nowhere else then.
 * joined: the root has the model, and these are the record of what is on disk, as raw bytes only. */
bool legacy_draft_ranks(struct legacy_save *ls, bool optim, bool joined,
                        struct zf_err *err) ZF_CHECKED;
/* Drafts the tensors of the model in the root, after j; with masters, these, the weights they shadow
 * in stored/ and the moments below optim/. */
bool legacy_draft_model(struct legacy_save *ls, const struct legacy_join *j, bool masters,
                        struct zf_err *err) ZF_CHECKED;

#endif
