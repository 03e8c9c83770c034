/* SPDX-License-Identifier: Apache-2.0 */
/* What torch.save wrote: a zip archive (>= 1.6), a legacy pickle stream, or an ancient tar; and what its
 * pickled values mean as tensors.  Source: torch/serialization.py, torch/_utils.py (1.13 … 2.13). */
#ifndef ZF_CODEC_TORCH_H
#define ZF_CODEC_TORCH_H

#include <zf/base/arena.h>
#include <zf/base/dtype.h>
#include <zf/base/limits.h>
#include <zf/codec/pickle.h>
#include <zf/source/source.h>

struct zf_torch;

/* Takes its own reference on src.  Reads the pickle(s); storages are found, checked and never read.
 * Errors: ZF_E_UNKNOWN not a torch.save file at all; ZF_E_FORMAT damaged; ZF_E_UNSUPPORTED; ZF_E_LIMIT. */
struct zf_torch *zf_torch_open(struct zf_source *src, const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void zf_torch_free(struct zf_torch *t); /* and every value and tensor obtained from it */
static inline void zf_auto_torch(struct zf_torch **t)
{
    zf_torch_free(*t);
}

/* Do the first bytes look like one?  Peeks at no more than a few hundred bytes. */
bool zf_torch_sniff(struct zf_source *src);

const struct zf_pv *zf_torch_root(const struct zf_torch *t);
struct zf_arena *zf_torch_arena(struct zf_torch *t);
/* "zip", "legacy", "tar", "torchscript" */
const char *zf_torch_container(const struct zf_torch *t);

struct zf_torch_storage {
    const char *key;       /* as in the file; equal keys are one storage */
    enum zf_dtype dtype;   /* of the storage class; U8 for UntypedStorage */
    uint64_t bytes;
    struct zf_source *src; /* borrowed from t: exactly `bytes` long, little-endian; NULL on meta */
};

struct zf_torch_tensor {
    const struct zf_torch_storage *storage;
    enum zf_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape, *stride; /* [ndim] elements */
    uint64_t off_elems;             /* first element in the storage */
    bool contiguous;                /* packed C order */
};

/* What a value is, seen as a tensor. */
enum zf_torch_kind {
    ZF_TORCH_NOT,     /* no tensor */
    ZF_TORCH_DENSE,   /* one strided tensor (Parameter, FakeTensor wrappers unwrapped) */
    ZF_TORCH_PARTS,   /* several named tensors: quantized, sparse, nested, wrapper subclasses */
    ZF_TORCH_META,    /* shape and dtype without data */
    ZF_TORCH_DTENSOR, /* a shard of a DTensor: local tensor + spec */
    ZF_TORCH_SHARDED, /* a ShardedTensor: local shards + metadata */
    ZF_TORCH_OPAQUE,  /* certainly a tensor, but of a kind that is not understood; why says which */
};
enum zf_torch_kind zf_torch_kind(const struct zf_torch *t, const struct zf_pv *v);

/* DENSE and META (then storage->src is NULL).  Checks that every element lies inside the storage; strides
 * of extents <= 1 are normalised.  Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED. */
bool zf_torch_tensor(struct zf_torch *t, const struct zf_pv *v, struct zf_torch_tensor *out,
                     struct zf_err *err) ZF_CHECKED;

/* PARTS: calls fn once a part: "int_repr" (the quantized integers), "scale", "zero_point", "scales",
 * "indices", "values", "crow_indices" …, or the attribute's name of a subclass.  `scalar` is set for a part
 * that is a Python number: then `number` is its value and `tensor` NULL. */
struct zf_torch_part {
    const char *name; /* "" = the tensor itself */
    const struct zf_pv *value; /* a value of kind DENSE, PARTS …, or a number */
};
typedef bool zf_torch_part_fn(void *ctx, const struct zf_torch_part *part, struct zf_err *err);
bool zf_torch_parts(struct zf_torch *t, const struct zf_pv *v, zf_torch_part_fn *fn, void *ctx,
                    struct zf_err *err) ZF_CHECKED;

#endif
