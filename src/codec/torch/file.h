/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files behind zf/codec/torch.h. */
#ifndef CODEC_TORCH_FILE_H
#define CODEC_TORCH_FILE_H

#include <zf/codec/torch.h>
#include <zf/codec/zip.h>

/* Bytes of a storage that is one number. */
#define TORCH_NUMBER 8u

/* Of a pickle, as twins.c makes it. */
struct torch_print {
    uint64_t half[2];
};

/* A storage as some view needs it: byte-swapped, or with signs flipped. */
struct torch_variant {
    struct zf_torch_storage pub;
    uint32_t swap;  /* width of the elements that are byte-swapped; 0 = none */
    uint32_t flips; /* ZF_TORCH_FLIP_* */
    struct torch_variant *next;
};

/* One storage of the file, as long as somebody needs it. */
struct torch_store {
    /* as it is in the file; its src is NULL until asked for, and on meta */
    struct zf_torch_storage plain;
    struct torch_variant *variants; /* changed ones */
    struct torch_store *next;       /* of all, and of those that serve again */
    struct torch_store *next_spare;
    bool untyped, meta;
};

/* A record of which a tensor was read; there can be as many as tensors. */
struct torch_met {
    struct torch_store *store; /* NULL: given back */
    uint64_t bytes;
    uint8_t dtype; /* enum zf_dtype */
    bool untyped, met;
};

/* Shapes and strides of up to this many dimensions are shared. */
#define TORCH_SPARE_DIMS 8u

/* A run of storage bytes in a legacy stream. */
struct torch_record {
    const char *key;
    uint64_t off, bytes;
    uint32_t es; /* bytes of an element; 0 = no value speaks of it */
    enum zf_dtype dtype;
    uint64_t order; /* place in the file */
};

/* A persistent id, understood: numel elements from `first` on of a storage that has `total`. */
struct torch_pid {
    const char *key;
    enum zf_dtype dtype;
    bool untyped, meta;
    uint64_t total, first, numel; /* elements of dtype; bytes when untyped */
};

/* A container's way to its storages. */
struct torch_container_ops {
    const char *name; /* "zip", "legacy", "torchscript" */
    /* Is this record a storage with bytes in it? */
    bool (*is_storage)(const struct zf_torch *t, uint64_t record);
    /* The record of a storage key, and how long it is. */
    bool (*find)(struct zf_torch *t, const char *key, uint64_t *record_out, uint64_t *bytes_out,
                 struct zf_err *err);
    /* Gives the first `bytes` bytes of it. */
    struct zf_source *(*open)(struct zf_torch *t, uint64_t record, uint64_t bytes,
                              struct zf_err *err);
};

struct zf_torch {
    struct zf_source *src;
    struct zf_limits lim;
    struct zf_arena *arena;
    /* of the first pickles of a stream, of which one is large; NULL = none */
    struct zf_arena *large[5];
    const struct torch_container_ops *ops;
    const struct zf_pv *root;
    struct zf_pv_scratch *scratch; /* for the value that torch_form_of looks at */
    uint64_t pickle_bytes;         /* the longest pickle, on disk */
    const struct zf_pv *pids;      /* the persistent ids of the pickle that was read last */
    struct zf_torch_twins *twins;  /* borrowed while it is opened; NULL = none */
    uint8_t *text;                 /* the pickle, kept for them; NULL of a long one … */
    uint64_t text_bytes;           /* 0: none is kept */
    struct torch_print print;      /* … which has this */
    bool twin;
    struct torch_number { /* a storage that was read ahead */
        uint64_t record, bytes;
        uint8_t byte[TORCH_NUMBER];
    } * number;
    uint64_t n_numbers;
    bool big; /* storages are big-endian */
    struct torch_store *stores, *spare_stores;
    /* [n] holds arrays of n; the first word is the next one */
    uint64_t *spare_dims[TORCH_SPARE_DIMS + 1];
    struct torch_met *met; /* [n_records] */
    uint64_t n_records;

    struct zf_zip *zip; /* zip: */
    const char *prefix; /* "archive/" */
    uint64_t
        zip_next; /* behind the storage found last: torch writes them as the pickle mentions them */

    struct torch_record *record; /* legacy: [n_records] sorted by key */
};

/* A failure of the torch reader's own: with the name of the file.  Returns false. */
bool torch_bad(const struct zf_torch *t, struct zf_err *err, enum zf_code code, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));

/* ZF_E_NOMEM: there is no memory for a pickle of n bytes. */
bool torch_no_room(const struct zf_torch *t, uint64_t n, struct zf_err *err);

bool torch_zip_open(struct zf_torch *t, struct zf_err *err) ZF_CHECKED;
bool torch_legacy_open(struct zf_torch *t, struct zf_err *err) ZF_CHECKED;

/* Reads one pickle from *off on and moves *off behind it.  `guess`: bytes to begin with. */
const struct zf_pv *torch_stream_load(struct zf_torch *t, uint64_t *off, uint64_t guess,
                                      struct zf_err *err) ZF_CHECKED;

/* A name: text, or the bytes that Python 2 wrote for one; NULL for all else. */
const char *torch_text(const struct zf_pv *v);
/* ZF_E_FORMAT unless v is the persistent id of a storage. */
bool torch_pid_load(struct zf_torch *t, const struct zf_pv *v, struct torch_pid *out,
                    struct zf_err *err) ZF_CHECKED;

/* The storage of a persistent id: finds or makes it, checks it against its record. */
struct torch_store *torch_store_get(struct zf_torch *t, const struct torch_pid *pid,
                                    struct zf_err *err) ZF_CHECKED;
#define ZF_TORCH_FLIP_REAL 1u /* of each element the sign of the value or of its real half */
#define ZF_TORCH_FLIP_IMAG 2u
/* The storage as a tensor of `dtype` needs it. */
const struct zf_torch_storage *torch_store_as(struct zf_torch *t, struct torch_store *s,
                                              enum zf_dtype dtype, uint32_t flips,
                                              struct zf_err *err) ZF_CHECKED;
/* A storage that is no record of the file: takes the reference on src, also when it fails. */
const struct zf_torch_storage *torch_store_own(struct zf_torch *t, enum zf_dtype dtype,
                                               struct zf_source *src,
                                               struct zf_err *err) ZF_CHECKED;
void torch_store_free(struct zf_torch *t);

/* parent with the sign bits of its little-endian elements flipped. */
struct zf_source *torch_flip_new(struct zf_source *parent, enum zf_dtype dtype, uint32_t flips,
                                 struct zf_err *err) ZF_CHECKED;

/* A value without its wrappers. */
enum torch_form_id {
    ZF_FORM_NOT,
    ZF_FORM_V2,      /* args: storage, offset, size, stride, grad, hooks, metadata */
    ZF_FORM_V3,      /* the same with dtype before metadata */
    ZF_FORM_META,    /* dtype, size, stride, grad */
    ZF_FORM_QUANT,   /* storage, offset, size, stride, params */
    ZF_FORM_SPARSE,  /* layout, data */
    ZF_FORM_NESTED,  /* buffer, sizes, strides, offsets */
    ZF_FORM_WRAPPER, /* state: the parts */
    ZF_FORM_DTENSOR, /* args of the wrapper, state */
    ZF_FORM_SHARDED, /* args of the wrapper (may be NULL), state: five fields */
    ZF_FORM_ARRAY,   /* numpy: args, state */
    ZF_FORM_SCALAR,
    ZF_FORM_BUFFER,
    ZF_FORM_OPAQUE, /* name: the function that is not understood */
    ZF_FORM_CHANGED /* name: what gives it other contents once it is made */
};
struct torch_form {
    enum torch_form_id id;
    const struct zf_pv *args, *state;
    const char *name;
    const struct zf_pv *cast; /* a dtype that the tensor was to be brought to on loading, or NULL */
};
/* Valid until the next call. */
struct torch_form torch_form_of(const struct zf_torch *t, const struct zf_pv *v);
/* Is it a call of the kind that a file may have as many of as tensors (zf_pickle_with.folded)? */
bool torch_form_folds(const struct zf_pv *call);

/* numpy's forms as a tensor. */
bool torch_numpy_load(struct zf_torch *t, const struct torch_form *form,
                      struct zf_torch_tensor *out, struct zf_err *err) ZF_CHECKED;

/* Room for n extents, which the caller fills. */
uint64_t *torch_dims_new(struct zf_torch *t, uint64_t n, struct zf_err *err) ZF_CHECKED;
/* A tuple, list or torch.Size of non-negative integers into the arena. */
bool torch_dims(struct zf_torch *t, const struct zf_pv *v, const char *what, uint32_t *n_out,
                uint64_t **out, struct zf_err *err) ZF_CHECKED;
/* torch.float32 … */
bool torch_dtype(struct zf_torch *t, const struct zf_pv *v, enum zf_dtype *out,
                 struct zf_err *err) ZF_CHECKED;
/* The integers of a dense int32 or int64 tensor value (at most `max` of them), into the arena. */
bool torch_ints(struct zf_torch *t, const struct zf_pv *v, uint64_t max, uint64_t *n_out,
                uint64_t **out, struct zf_err *err) ZF_CHECKED;
/* The numbers of form v2, v3, quant: of the tensor's storage when its integers are read raw. */
bool torch_tensor_form(struct zf_torch *t, const struct torch_form *form,
                       struct zf_torch_tensor *out, struct zf_err *err) ZF_CHECKED;

/* Is any pickle of n bytes known? */
bool torch_twins_may_know(const struct zf_torch *t, uint64_t n);
/* Is p[n], the pickle of t, known?  p is as before in the end. */
bool torch_twins_know(struct zf_torch *t, uint8_t *p, uint64_t n);
/* The same.  Otherwise *p is t's from here on if it is worth keeping. */
bool torch_twins_take(struct zf_torch *t, uint8_t **p, uint64_t n);

#endif
