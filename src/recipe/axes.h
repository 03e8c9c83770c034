/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of a tensor in another order, without its bytes: axes that are split, exchanged, joined and cut. */
#ifndef RECIPE_AXES_H
#define RECIPE_AXES_H

#include <zf/model/map.h>

#include "pattern.h"

/* An axis is a number of steps, or steps of several lengths nested: the outer ones first. */
struct axis {
    uint32_t n;
    uint64_t size[MAX_NAMES], stride[MAX_NAMES];
};
struct axes {
    uint64_t first; /* element of the tensor */
    uint32_t n;
    struct axis at[MAX_AXES];
};

/* The size of a name, or 0 where it is not said; false: it is said, but is no size. */
typedef bool axes_size_fn(void *ctx, const char *name, uint64_t *out, struct zf_err *err);

/* A packed tensor as it is.  Errors: ZF_E_LIMIT too many dimensions. */
bool axes_init(struct axes *x, uint32_t ndim, const uint64_t *shape, struct zf_err *err) ZF_CHECKED;
/* Errors: ZF_E_FORMAT other axes than the pattern's, a size that does not divide, or is not said and cannot be
 * worked out. */
bool axes_rearrange(struct axes *x, const struct pattern *p, axes_size_fn *size, void *ctx,
                    struct zf_err *err) ZF_CHECKED;
/* Positions [from, to) of axis k.  Errors: ZF_E_FORMAT outside of it, or an axis that was joined and is not cut whole. */
bool axes_cut(struct axes *x, uint32_t k, uint64_t from, uint64_t to,
              struct zf_err *err) ZF_CHECKED;
/* Takes axis k away, which has one position. */
void axes_drop(struct axes *x, uint32_t k);
uint64_t axis_size(const struct axis *a);
/* Elements. */
uint64_t axes_count(const struct axes *x);
/* The sizes and strides of all, nested ones one by one, those of one position left out. */
bool axes_strided(const struct axes *x, uint32_t elem, struct zf_strided *out,
                  struct zf_err *err) ZF_CHECKED;

#endif
