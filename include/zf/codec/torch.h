/* SPDX-License-Identifier: Apache-2.0 */
/* Files written by torch.save, a zip archive (>= 1.6) or a legacy pickle stream, and the tensors that their pickled
 * values describe.  Source: torch/serialization.py, torch/_utils.py (1.13 … 2.13). */
#ifndef ZF_CODEC_TORCH_H
#define ZF_CODEC_TORCH_H

#include <zf/base/arena.h>
#include <zf/base/dtype.h>
#include <zf/base/limits.h>
#include <zf/base/out.h>
#include <zf/codec/pickle.h>
#include <zf/source/recipe.h>

struct zf_torch;

/* Takes its own reference on src.  Reads the pickle(s); storages are located and checked, but not read.
 * Errors: ZF_E_UNKNOWN not a torch.save file at all; ZF_E_FORMAT damaged;
 * ZF_E_UNSUPPORTED; ZF_E_LIMIT. */
struct zf_torch *zf_torch_open(struct zf_source *src, const struct zf_limits *lim,
                               struct zf_err *err) ZF_CHECKED;
void zf_torch_free(struct zf_torch *t); /* and every value and tensor obtained from it */
static inline void zf_auto_torch(struct zf_torch **t)
{
    zf_torch_free(*t);
}

/* A set of pickles for comparison byte by byte, so that of the equal files of many ranks only the first is parsed.
 * Equal pickles have equal values, except for the contents of tensors.  Long pickles also count as equal if they differ
 * only in the device number N of texts "cuda:N", so do not add one of which a value that matters contains "uda:" (an
 * opcode could lie within the text before it).  Thread: any. */
struct zf_torch_known;
struct zf_torch_known *zf_torch_known_new(struct zf_err *err) ZF_CHECKED;
void zf_torch_known_free(struct zf_torch_known *w);
/* Opens src.  A file whose pickle is in w has no root and no tensors (zf_torch_is_known); of an archive that begins with
 * the pickle, only the end record, the first entry and the pickle are read.  w NULL: no pickles are known. */
struct zf_torch *zf_torch_open_among(struct zf_source *src, const struct zf_limits *lim,
                                     struct zf_torch_known *w, struct zf_err *err) ZF_CHECKED;
bool zf_torch_is_known(const struct zf_torch *t);
/* Adds the pickle of t, which was opened with w and is not known yet.  Only few pickles are kept, so a later file with
 * the same pickle may be read in full. */
void zf_torch_known_add(struct zf_torch_known *w, struct zf_torch *t);

/* The file's name, for messages. */
const char *zf_torch_name(const struct zf_torch *t);

/* True if the first few hundred bytes look like a torch.save file. */
bool zf_torch_sniff(struct zf_source *src);

/* The approximate memory that t takes, in bytes. */
uint64_t zf_torch_weight(const struct zf_torch *t);

/* Size on disk of the pickle with the root value, in bytes. */
uint64_t zf_torch_pickle_bytes(const struct zf_torch *t);
const struct zf_pv *zf_torch_root(const struct zf_torch *t);
struct zf_arena *zf_torch_arena(struct zf_torch *t);

/* Reads storages that hold a single number (the steps of an optimizer), if there are few, so that reading them later
 * does not wait for a slow source.  Failures are ignored; they occur again later. */
void zf_torch_read_ahead(struct zf_torch *t);

/* The number of non-empty storages in the file, and of those for which no tensor was read so far. */
void zf_torch_storages(const struct zf_torch *t, uint64_t *n_out, uint64_t *unread_out);

struct zf_torch_storage {
    const char *key;     /* as in the file; equal keys are one storage */
    enum zf_dtype dtype; /* of the storage class; U8 for UntypedStorage */
    uint64_t bytes;
    struct zf_source *src; /* borrowed from t: exactly `bytes` long, little-endian; NULL on meta */
    const uint8_t *known;  /* its bytes, if zf_torch_read_ahead read them; else NULL */
    uint64_t
        record; /* the index of its record, below zf_torch_n_records; ZF_TORCH_NO_RECORD: it has none */
    bool again; /* zf_torch_release may free it */
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
    bool lent;                      /* no other tensor shares shape and stride */
};

/* Frees the memory of x: x, its shape and its storage must not be used any more; reading a tensor of that storage again
 * makes them anew.  For files with very many storages. */
void zf_torch_release(struct zf_torch *t, const struct zf_torch_tensor *x);

/* The kind of a value, seen as a tensor. */
enum zf_torch_kind {
    ZF_TORCH_NOT,     /* no tensor */
    ZF_TORCH_DENSE,   /* one strided tensor (Parameters and subclasses with attributes unwrapped) */
    ZF_TORCH_PARTS,   /* several named tensors: quantized, sparse, nested, wrapper subclasses */
    ZF_TORCH_META,    /* shape and dtype without data */
    ZF_TORCH_DTENSOR, /* a shard of a DTensor: zf_torch_dtensor (zf/codec/dtensor.h) */
    ZF_TORCH_SHARDED, /* a ShardedTensor: zf_torch_sharded (in the same header) */
    ZF_TORCH_NUMPY,   /* a numpy array or scalar in the pickle: zf_torch_tensor reads simple ones */
    ZF_TORCH_OPAQUE,  /* a tensor of an unsupported kind: zf_torch_tensor fails with the reason */
};
enum zf_torch_kind zf_torch_kind(const struct zf_torch *t, const struct zf_pv *v);

/* Reads tensors of kind DENSE, NUMPY and META (then storage->src is NULL).  Checks that every element lies inside the
 * storage and the storage inside its record; strides of extents <= 1 are normalised; conjugate and
 * negative views are resolved by the source.  For other kinds it fails with the reason.
 * Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED, ZF_E_LIMIT tensor_dims. */
bool zf_torch_tensor(struct zf_torch *t, const struct zf_pv *v, struct zf_torch_tensor *out,
                     struct zf_err *err) ZF_CHECKED;

/* The sequence of numbers (borrowed) of a pickled shape, stride or offset: torch.Size, or a plain tuple or list; or
 * NULL. */
const struct zf_pv *zf_torch_size(const struct zf_pv *v);
/* Copies its numbers if there are exactly n and none is negative. */
bool zf_torch_extents(const struct zf_pv *v, uint64_t n, uint64_t *out);

/* One piece of a PARTS value. */
struct zf_torch_part {
    /* "int_repr" (the stored integers of a quantized tensor), "scale", "zero_point", "scales",
     * "zero_points", "axis"; "indices", "values", "crow_indices", "col_indices", "ccol_indices",
     * "row_indices"; "buffer", "sizes", "strides", "offsets"; or the attribute of a subclass. */
    const char *name;
    /* A dense piece, read and checked; valid during the call only. */
    const struct zf_torch_tensor *tensor;
    /* Without tensor: a Python number, or a value of another kind (PARTS, META …).  NULL for a piece that is no
     * separate value ("int_repr"). */
    const struct zf_pv *value;
};
typedef bool zf_torch_part_fn(void *ctx, const struct zf_torch_part *part, struct zf_err *err);

/* Calls fn for each piece, in the order of the file; stops if it fails.
 * Errors: those of fn; ZF_E_FORMAT; ZF_E_UNSUPPORTED v is not of kind PARTS. */
bool zf_torch_parts(struct zf_torch *t, const struct zf_pv *v, zf_torch_part_fn *fn, void *ctx,
                    struct zf_err *err) ZF_CHECKED;

/* Appends the names of attributes of v, of a subclass of Tensor, that are neither tensors nor None, and so are no
 * pieces: "Class.one, Class.two". */
void zf_torch_attrs(struct zf_torch *t, const struct zf_pv *v, struct zf_out *out);

/* Another source with sign bits flipped: conjugate and negative views. */
extern const struct zf_source_kind zf_torch_flip_kind;

#endif
