/* SPDX-License-Identifier: Apache-2.0 */
/* A legacy save between the ranks' files and the tree: the content of the files, kept after their pickles are
 * freed, and the steps of opening the save in legacy.c's order, each of which has a file of its own. */
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

/* Knowledge of a tensor by its name in a rank's file: which layer and expert it is of, how the
 * tensor-parallel ranks share it, and how large all of it must be. */

#define LEGACY_STACKS 6
#define LEGACY_MTP 2 /* that of multi-token prediction */

enum legacy_cut {
    LEGACY_COPY,    /* every rank holds all of it */
    LEGACY_ROWS,    /* cut along dimension 0 */
    LEGACY_GATED,   /* likewise, but a rank's rows are two halves [W_r | V_r] of [W | V] */
    LEGACY_COLUMNS, /* cut along dimension 1 */
    LEGACY_EITHER,  /* cut along dimension 0 or a copy: its size says which */
    LEGACY_ALONE, /* matrices of experts one behind the other: joined ones of several ranks have no shape */
};

struct legacy_text {
    const char *p;
    size_t n;
};

struct legacy_name {
    enum legacy_cut cut;
    uint32_t ndim;
    uint64_t shape[2]; /* of the joined tensor; 0 = not known */
    /* The number of the layer within its file, and where in the name it is; n = 0: of no layer. */
    struct legacy_text stack; /* "decoder.layers.", which is in front of it */
    uint64_t layer;
    size_t layer_n;    /* digits */
    uint32_t stack_id; /* below LEGACY_STACKS */
    bool mtp;          /* its numbers are those of the whole model already */
    /* The same of the expert; at = 0: of none. */
    uint64_t expert;
    size_t expert_at, expert_n;
};

/* False: the name is not known, or its gated halves or heads are not as the table has them. */
bool legacy_names_parse(const char *p, size_t n, const struct megatron_settings *s,
                        struct legacy_name *out);

/* The stack whose last norm this terminated name is of; -1: of none. */
int legacy_names_final(const char *p, size_t n);

/* The name of the embedding that this is a tied copy of; NULL: it is none. */
const char *legacy_names_tied(const char *p, size_t n);

/* One rank's value of a parameter: a tensor, or a number of its optimizer's state. */
struct legacy_value {
    struct legacy_value *next;
    const char *key; /* LEGACY_WEIGHT, LEGACY_MASTER, or the state's: "exp_avg" */
    bool number;
    enum zf_dtype dtype; /* of a number: I64 or F64, in bits */
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
    uint32_t file;              /* of legacy_files */
    uint32_t chunk;             /* of the virtual pipeline */
    struct legacy_value weight; /* the first of its values */
    enum legacy_attr attr;
    uint32_t attr_dim, attr_stride;
    /* Set by the join: */
    struct legacy_name is;
    uint64_t layer; /* number in the whole model */
    uint32_t whole; /* the tensor of the model that this is a part of … */
    uint32_t slot;  /* … and which part */
    uint32_t first; /* the first part of that slot, of which this is a copy; or itself */
};

/* The part's value of that key, or NULL. */
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
    struct legacy_number *by_name;    /* uthash, of their numbers */
    const char *stack[LEGACY_STACKS]; /* name of the stack; NULL: no file has a layer of it */
    uint64_t layers[LEGACY_STACKS];   /* of the whole model */
    uint64_t *begin; /* [LEGACY_STACKS * n_chunks * stages] number of each chunk's first layer */
};

/* A value whose parameter is unknown (key: its state), or a flat vector of many parameters. */
struct legacy_unowned {
    const char *name; /* its integer id, "1.0.3", or its path in distrib_optim.pt */
    struct legacy_value value;
};

#define LEGACY_NO_WRITER UINT64_MAX
struct legacy_rank {
    const struct legacy_file *file;
    uint64_t writer; /* args.rank, the process that wrote the file; or LEGACY_NO_WRITER */
    bool lost;       /* degraded: it could not be read */
    uint32_t first_part, n_parts; /* of the save */
    uint32_t first_unowned, n_unowned;
    uint32_t first_flat, n_flats;
    uint32_t n_chunks;    /* of the virtual pipeline */
    bool numbered;        /* "model0", not "model" */
    bool optim;           /* its file has an optimizer: it trains parameters */
    const char *unproven; /* why its masters have no names; NULL = they have, or there are none */
    const char *unmapped; /* a flat buffer without names, and why; NULL: there is none */
    const char *odd;      /* a tensor of the model that could not be read, or NULL */
};

struct legacy_save {
    struct zf_store *st;
    const struct zf_open_opts *o;
    struct zf_build *b;
    struct zf_arena *a; /* work memory, gone once the tensors are drafted */
    struct zf_keeper keep;
    struct zf_torch_ahead ahead;
    struct zf_agree *said; /* what the first rank's file says and all must */
    struct megatron_settings settings;
    double version;    /* checkpoint_version; 0 = not said */
    uint32_t compares; /* that may still be made to map flat buffers, for all of them together */
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
