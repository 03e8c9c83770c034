/* SPDX-License-Identifier: Apache-2.0 */
/* A strided tensor as a source.  It is a single box that covers the whole tensor, read as the boxes
 * of a map are.  Dimensions of size 1 are left out, so fewer than 64 remain: a tensor of more would
 * have over 2^63 elements.  Only sizes and strides are kept: a checkpoint can have many such tensors. */
#include <zf/model/build.h>

#include <stdlib.h>

#include "box.h"

struct box_source {
    struct zf_source src;
    struct zf_source *from;
    uint64_t off; /* offset of the first element in `from`, in bytes */
    uint32_t nd;  /* the last one counts bytes */
    struct {
        uint64_t size, stride; /* bytes of `from` */
    } dim[];
};

static bool box_source_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                             struct zf_err *err)
{
    const struct box_source *b = (const struct box_source *)s;
    struct box box = {.src = b->from, .off = b->off, .nd = b->nd};

    for (uint32_t d = 0; d < b->nd; d++) {
        box.size[d] = b->dim[d].size;
        box.stride[d] = b->dim[d].stride;
    }
    box_measure(&box);
    box.tensor_shape = box.size;
    box.tensor_stride = box.inner;
    return box_gather(&box, off, off + n, buf, off, err);
}

static void box_source_fini(struct zf_source *s)
{
    struct box_source *b = (struct box_source *)s;

    zf_source_unref(&b->from);
    zf_source_fini(s);
    free(b);
}

static struct zf_shared box_source_shared(const struct zf_source *s)
{
    return zf_source_shared(((const struct box_source *)s)->from);
}

static const struct zf_source_ops box_source_ops = {
    .kind = "strided",
    .pread = box_source_pread,
    .shared = box_source_shared,
    .fini = box_source_fini,
};

struct zf_source *box_source_new(const struct box *box, struct zf_err *err)
{
    const uint64_t bytes = box->inner[0] * box->size[0];
    struct box_source *b = zf_source_new(sizeof *b + box->nd * sizeof *b->dim, &box_source_ops,
                                         box->src->name, bytes, err);

    if (!b)
        return NULL;
    b->nd = box->nd;
    for (uint32_t d = 0; d < box->nd; d++) {
        b->dim[d].size = box->size[d];
        b->dim[d].stride = box->stride[d];
    }
    b->off = box->off;
    b->from = zf_source_ref(box->src);
    return &b->src;
}

struct zf_source *zf_strided_new(struct zf_type type, struct zf_from from, struct zf_err *err)
{
    uint64_t elem = zf_dtype_info(type.dtype)->bytes, bytes;
    struct box box = {.src = from.src, .off = from.off};

    if (!zf_dtype_size(type.dtype, type.ndim, type.shape, &bytes) || bytes == 0) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a strided tensor whose size overflows");
        return NULL;
    }
    for (uint32_t d = 0; d < type.ndim; d++) {
        if (type.shape[d] != 1) {
            box.size[box.nd] = type.shape[d];
            box.stride[box.nd++] = from.stride[d] * elem; /* inside `from`, by contract */
        }
    }
    box.size[box.nd] = elem;
    box.stride[box.nd++] = 1;
    box_measure(&box);
    return box_source_new(&box, err);
}
