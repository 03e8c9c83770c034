/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files behind zf/codec/torch.h. */
#ifndef CODEC_TORCH_FILE_H
#define CODEC_TORCH_FILE_H

#include <zf/codec/torch.h>
#include <zf/codec/zip.h>

/* A storage of up to this many bytes is a single number, and may be read ahead. */
#define TORCH_NUMBER 8u

/* The hash of a pickle, computed by known_pickles.c. */
struct torch_print {
    uint64_t half[2];
};

/* A storage with its bytes swapped or its sign bits flipped, as some tensor needs it. */
struct torch_variant {
    struct zf_torch_storage pub;
    uint32_t swap;  /* width of the elements that are byte-swapped; 0 = none */
    uint32_t flips; /* ZF_TORCH_FLIP_* */
    struct torch_variant *next;
};

/* One storage of the file, until it is released. */
struct torch_store {
    /* unchanged, as in the file; its src is NULL before the first use, and on the meta device */
    struct zf_torch_storage plain;
    struct torch_variant *variants; /* swapped or flipped ones */
    struct torch_store *next;       /* in the list of all; next_spare: of those free for reuse */
    struct torch_store *next_spare;
    bool untyped, meta;
};

/* What is remembered of a record once a tensor of it was read; small, because every tensor can have one. */
struct torch_met {
    struct torch_store *store; /* NULL: none, or released */
    uint64_t bytes;
    uint8_t dtype; /* enum zf_dtype */
    bool untyped, met;
};

/* Arrays of shapes and strides of up to this many dimensions are reused. */
#define TORCH_SPARE_DIMS 8u

/* A run of storage bytes in a legacy stream. */
struct torch_record {
    const char *key;
    uint64_t off, bytes;
    uint32_t es; /* bytes of an element; 0 = unknown, because no value uses the storage */
    enum zf_dtype dtype;
    uint64_t order; /* index in the order of the file */
};

/* A parsed persistent id: elements [first, first + numel) of a storage of `total`. */
struct torch_pid {
    const char *key;
    enum zf_dtype dtype;
    bool untyped, meta;
    uint64_t total, first, numel; /* elements of dtype; bytes when untyped */
};

/* How a container finds and opens its storages. */
struct torch_container_ops {
    const char *name; /* "zip", "legacy", "torchscript" */
    /* Is this record a storage that is not empty? */
    bool (*is_storage)(const struct zf_torch *t, uint64_t record);
    /* Finds the record of a storage key, and its length. */
    bool (*find)(struct zf_torch *t, const char *key, uint64_t *record_out, uint64_t *bytes_out,
                 struct zf_err *err);
    /* Returns a source (a reference) of the record's first `bytes` bytes. */
    struct zf_source *(*open)(struct zf_torch *t, uint64_t record, uint64_t bytes,
                              struct zf_err *err);
};

struct zf_torch {
    struct zf_source *src;
    struct zf_limits lim;
    struct zf_arena *arena;
    /* one each for the first pickles of a legacy stream, one of which is large; NULL = unused */
    struct zf_arena *large[5];
    const struct torch_container_ops *ops;
    const struct zf_pv *root;
    struct zf_pv_scratch *scratch; /* holds the value that torch_form_of unfolds */
    uint64_t pickle_bytes;         /* the longest pickle, on disk */
    const struct zf_pv *pids;      /* the persistent ids of the pickle that was read last */
    struct zf_torch_known *known;  /* borrowed while the file is opened; NULL = none */
    uint8_t *text;                 /* the pickle, kept for `known`; NULL if only its hash is kept */
    uint64_t text_bytes;           /* the pickle's bytes; 0: neither is kept */
    struct torch_print print;      /* the hash of a long pickle */
    bool is_known;
    struct torch_number { /* a small storage that was read ahead */
        uint64_t record, bytes;
        uint8_t byte[TORCH_NUMBER];
    } * number;
    uint64_t n_numbers;
    bool big; /* storages are big-endian */
    struct torch_store *stores, *spare_stores;
    /* [n]: list of free arrays of n extents; the first word of each is the next pointer */
    uint64_t *spare_dims[TORCH_SPARE_DIMS + 1];
    struct torch_met *met; /* [n_records] */
    uint64_t n_records;

    struct zf_zip *zip; /* zip: */
    const char *prefix; /* "archive/" */
    uint64_t
        zip_next; /* the member after the storage found last: torch writes them in the pickle's order */

    struct torch_record *record; /* legacy: [n_records] sorted by key */
};

/* Fails with a message that names the file.  Returns false. */
bool torch_bad(const struct zf_torch *t, struct zf_err *err, enum zf_code code, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));

/* Fails with ZF_E_NOMEM: no memory for a pickle of n bytes. */
bool torch_no_room(const struct zf_torch *t, uint64_t n, struct zf_err *err);

bool torch_zip_open(struct zf_torch *t, struct zf_err *err) ZF_CHECKED;
bool torch_legacy_open(struct zf_torch *t, struct zf_err *err) ZF_CHECKED;

/* Reads one pickle at *off and moves *off past it.  `guess`: bytes to read first. */
const struct zf_pv *torch_stream_load(struct zf_torch *t, uint64_t *off, uint64_t guess,
                                      struct zf_err *err) ZF_CHECKED;

/* The text of v: a str, or the bytes that Python 2 wrote for one; NULL for anything else. */
const char *torch_text(const struct zf_pv *v);
/* Parses the persistent id of a storage.  Errors: ZF_E_FORMAT v is none. */
bool torch_pid_load(struct zf_torch *t, const struct zf_pv *v, struct torch_pid *out,
                    struct zf_err *err) ZF_CHECKED;

/* Returns the storage of a persistent id, checked against its record; makes it at the first use. */
struct torch_store *torch_store_get(struct zf_torch *t, const struct torch_pid *pid,
                                    struct zf_err *err) ZF_CHECKED;
#define ZF_TORCH_FLIP_REAL 1u /* flips each element's sign, or that of its real half */
#define ZF_TORCH_FLIP_IMAG 2u
/* Returns the storage with swapped bytes and flipped signs, as a tensor of `dtype` needs it. */
const struct zf_torch_storage *torch_store_as(struct zf_torch *t, struct torch_store *s,
                                              enum zf_dtype dtype, uint32_t flips,
                                              struct zf_err *err) ZF_CHECKED;
/* Makes a storage that is not a record of the file: takes the reference on src, even on failure. */
const struct zf_torch_storage *torch_store_own(struct zf_torch *t, enum zf_dtype dtype,
                                               struct zf_source *src,
                                               struct zf_err *err) ZF_CHECKED;
void torch_store_free(struct zf_torch *t);

/* Returns a source of parent's little-endian elements with flipped sign bits. */
struct zf_source *torch_flip_new(struct zf_source *parent, enum zf_dtype dtype, uint32_t flips,
                                 struct zf_err *err) ZF_CHECKED;

/* What kind of tensor a value is, without its wrappers. */
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
    ZF_FORM_OPAQUE, /* name: the function that zerofs does not know */
    ZF_FORM_CHANGED /* name: what changes the tensor's contents after it was built */
};
struct torch_form {
    enum torch_form_id id;
    const struct zf_pv *args, *state;
    const char *name;
    const struct zf_pv *cast; /* the dtype that torch.load converts the tensor to, or NULL */
};
/* Valid until the next call. */
struct torch_form torch_form_of(const struct zf_torch *t, const struct zf_pv *v);
/* Is it a call that occurs once per tensor, and so is folded (zf_pickle_with.folded)? */
bool torch_form_folds(const struct zf_pv *call);

/* Reads a numpy array or scalar as a tensor. */
bool torch_numpy_load(struct zf_torch *t, const struct torch_form *form,
                      struct zf_torch_tensor *out, struct zf_err *err) ZF_CHECKED;

/* Returns an array of n extents for the caller to fill. */
uint64_t *torch_dims_new(struct zf_torch *t, uint64_t n, struct zf_err *err) ZF_CHECKED;
/* Reads a tuple, list or torch.Size of non-negative integers into an array in the arena. */
bool torch_dims(struct zf_torch *t, const struct zf_pv *v, const char *what, uint32_t *n_out,
                uint64_t **out, struct zf_err *err) ZF_CHECKED;
/* Reads a dtype: torch.float32 … */
bool torch_dtype(struct zf_torch *t, const struct zf_pv *v, enum zf_dtype *out,
                 struct zf_err *err) ZF_CHECKED;
/* Reads the integers (at most `max`) of a dense int32 or int64 tensor into an array in the arena. */
bool torch_ints(struct zf_torch *t, const struct zf_pv *v, uint64_t max, uint64_t *n_out,
                uint64_t **out, struct zf_err *err) ZF_CHECKED;
/* Reads a tensor of form V2, V3 or QUANT; of a quantized one, the raw integers. */
bool torch_tensor_form(struct zf_torch *t, const struct torch_form *form,
                       struct zf_torch_tensor *out, struct zf_err *err) ZF_CHECKED;

/* Is any pickle of n bytes known? */
bool torch_known_may_have(const struct zf_torch *t, uint64_t n);
/* Is p[n], the pickle of t, known?  p is changed only during the call. */
bool torch_known_has(struct zf_torch *t, uint8_t *p, uint64_t n);
/* Likewise; if it is not known, t may keep it and then owns *p. */
bool torch_known_take(struct zf_torch *t, uint8_t **p, uint64_t n);

#endif
