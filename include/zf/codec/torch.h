/* SPDX-License-Identifier: Apache-2.0 */
/* Files written by torch.save: a zip archive (>= 1.6) or a legacy pickle stream; and what its pickled
 * values mean as tensors.  Source: torch/serialization.py, torch/_utils.py (1.13 … 2.13). */
#ifndef ZF_CODEC_TORCH_H
#define ZF_CODEC_TORCH_H

#include <zf/base/arena.h>
#include <zf/base/dtype.h>
#include <zf/base/limits.h>
#include <zf/base/out.h>
#include <zf/codec/pickle.h>
#include <zf/source/recipe.h>

struct zf_torch;

/* Takes its own reference on src.  Reads the pickle(s); storages are found, checked and never read.
 * Errors: ZF_E_UNKNOWN not a torch.save file at all; ZF_E_FORMAT damaged;
 * ZF_E_UNSUPPORTED; ZF_E_LIMIT. */
struct zf_torch *zf_torch_open(struct zf_source *src, const struct zf_limits *lim,
                               struct zf_err *err) ZF_CHECKED;
void zf_torch_free(struct zf_torch *t); /* and every value and tensor obtained from it */
static inline void zf_auto_torch(struct zf_torch **t)
{
    zf_torch_free(*t);
}

/* Pickles that are known byte by byte: of files that many ranks write alike only the first is parsed.  What a
 * pickle says is in its bytes, but not what its tensors hold.  Long ones are also known where the number N of one
 * device in texts "cuda:N" is another one, so add none of which a value that counts holds "uda:" (a text could be cut into
 * opcodes in front of that).  Any thread may use it. */
struct zf_torch_twins;
struct zf_torch_twins *zf_torch_twins_new(struct zf_err *err) ZF_CHECKED;
void zf_torch_twins_free(struct zf_torch_twins *w);
/* Opens src; one whose pickle is in w is a twin, has no root, and none of its tensors can be asked for: of an archive
 * with the pickle in front, nothing but end record, first entry and that pickle is read then.  w NULL: there are none. */
struct zf_torch *zf_torch_open_among(struct zf_source *src, const struct zf_limits *lim,
                                     struct zf_torch_twins *w, struct zf_err *err) ZF_CHECKED;
bool zf_torch_is_twin(const struct zf_torch *t);
/* Files with the pickle of t, which was opened among w and is no twin, are twins from here on.  Few are kept:
 * nothing relies on it. */
void zf_torch_twins_add(struct zf_torch_twins *w, struct zf_torch *t);

/* The file's name, for messages. */
const char *zf_torch_name(const struct zf_torch *t);

/* Do the first bytes look like one?  Peeks at no more than a few hundred bytes. */
bool zf_torch_sniff(struct zf_source *src);

/* About how many bytes of memory it takes. */
uint64_t zf_torch_weight(const struct zf_torch *t);

/* Bytes on disk of the pickle that holds the root. */
uint64_t zf_torch_pickle_bytes(const struct zf_torch *t);
const struct zf_pv *zf_torch_root(const struct zf_torch *t);
struct zf_arena *zf_torch_arena(struct zf_torch *t);

/* Reads the few storages of a number (the steps of an optimizer), so that who asks for one later
 * need not wait for a slow source.  What cannot be read is left to whoever asks. */
void zf_torch_read_ahead(struct zf_torch *t);

/* The number of storages with bytes in the file, and of those from which no tensor was read
 * so far. */
void zf_torch_storages(const struct zf_torch *t, uint64_t *n_out, uint64_t *unread_out);

struct zf_torch_storage {
    const char *key;     /* as in the file; equal keys are one storage */
    enum zf_dtype dtype; /* of the storage class; U8 for UntypedStorage */
    uint64_t bytes;
    struct zf_source *src; /* borrowed from t: exactly `bytes` long, little-endian; NULL on meta */
    const uint8_t *known;  /* these bytes, when zf_torch_read_ahead read them; else NULL */
    uint64_t record; /* its number, below zf_torch_n_records; ZF_TORCH_NO_RECORD: it is none */
    bool again;      /* it can be made again: see zf_torch_release */
};
#define ZF_TORCH_NO_RECORD UINT64_MAX
uint64_t zf_torch_n_records(const struct zf_torch *t);

struct zf_torch_tensor {
    const struct zf_torch_storage *storage;
    enum zf_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape, *stride; /* [ndim] elements */
    uint64_t off_elems;             /* first element in the storage */
    bool contiguous;                /* packed C order */
    bool lent;                      /* shape and stride are for it alone */
};

/* Gives back what x needs: nobody looks at it, at its shape, or at its storage any more, unless a tensor of that storage
 * is asked for once more, which finds it anew.  For files of that many storages that each would count. */
void zf_torch_release(struct zf_torch *t, const struct zf_torch_tensor *x);

/* The kind of a value, seen as a tensor. */
enum zf_torch_kind {
    ZF_TORCH_NOT,     /* no tensor */
    ZF_TORCH_DENSE,   /* one strided tensor (Parameters and subclasses with attributes unwrapped) */
    ZF_TORCH_PARTS,   /* several named tensors: quantized, sparse, nested, wrapper subclasses */
    ZF_TORCH_META,    /* shape and dtype without data */
    ZF_TORCH_DTENSOR, /* a shard of a DTensor: zf_torch_dtensor (zf/codec/dtensor.h) */
    ZF_TORCH_SHARDED, /* a ShardedTensor: zf_torch_sharded (there too) */
    ZF_TORCH_NUMPY,   /* a numpy array or scalar in the pickle: zf_torch_tensor reads simple ones */
    ZF_TORCH_OPAQUE,  /* surely a tensor, of a kind not understood: zf_torch_tensor says why */
};
enum zf_torch_kind zf_torch_kind(const struct zf_torch *t, const struct zf_pv *v);

/* DENSE, NUMPY and META (then storage->src is NULL).  Checks that every element lies inside the
 * storage and the storage inside its record; strides of extents <= 1 are normalised; conjugate and
 * negative views are resolved by the source.  For other kinds it fails with the reason.
 * Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED, ZF_E_LIMIT tensor_dims. */
bool zf_torch_tensor(struct zf_torch *t, const struct zf_pv *v, struct zf_torch_tensor *out,
                     struct zf_err *err) ZF_CHECKED;

/* A shape, stride or offset as it is pickled: torch.Size, or a plain tuple or list.  The sequence of
 * its numbers, borrowed, or NULL. */
const struct zf_pv *zf_torch_size(const struct zf_pv *v);
/* Copies its numbers when they are exactly n and none is negative. */
bool zf_torch_extents(const struct zf_pv *v, uint64_t n, uint64_t *out);

/* One piece of a PARTS value. */
struct zf_torch_part {
    /* "int_repr" (the stored integers of a quantized tensor), "scale", "zero_point", "scales",
     * "zero_points", "axis"; "indices", "values", "crow_indices", "col_indices", "ccol_indices",
     * "row_indices"; "buffer", "sizes", "strides", "offsets"; or the attribute of a subclass. */
    const char *name;
    /* A dense piece, read and checked; lives during the call only. */
    const struct zf_torch_tensor *tensor;
    /* Without tensor: a Python number, or a value of kind PARTS, META … to be asked again.  NULL
     * for a piece that is no value of its own ("int_repr"). */
    const struct zf_pv *value;
};
typedef bool zf_torch_part_fn(void *ctx, const struct zf_torch_part *part, struct zf_err *err);

/* Calls fn once a piece, in the order of the file; stops with its failure.
 * Errors: fn's; ZF_E_FORMAT; ZF_E_UNSUPPORTED v is no PARTS. */
bool zf_torch_parts(struct zf_torch *t, const struct zf_pv *v, zf_torch_part_fn *fn, void *ctx,
                    struct zf_err *err) ZF_CHECKED;

/* Appends the names of v's attributes that are no pieces of it, as "Class.one, Class.two": those of a subclass of Tensor
 * that are neither tensors nor None. */
void zf_torch_attrs(struct zf_torch *t, const struct zf_pv *v, struct zf_out *out);

/* Sign bits of another source flipped: conjugate and negative views. */
extern const struct zf_source_kind zf_torch_flip_kind;

#endif
