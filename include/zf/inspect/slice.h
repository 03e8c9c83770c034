/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a tensor that a user asks for, in numpy's notation: "[0:2, :6]", "[3]", "[..., -1]", "[::2]". */
#ifndef ZF_INSPECT_SLICE_H
#define ZF_INSPECT_SLICE_H

#include <zf/base/err.h>

#define ZF_SLICE_DIMS 64

struct zf_slice {
    uint32_t ndim; /* of the tensor */
    struct zf_slice_axis {
        uint64_t first; /* index of its first element */
        int64_t step;   /* to the next one; not 0 */
        uint64_t n;     /* elements */
        bool single;    /* one index was given: the result lacks this axis */
    } axis[ZF_SLICE_DIMS];
};

/* Makes the slice of a whole tensor of that shape; ndim at most ZF_SLICE_DIMS. */
void zf_slice_all(struct zf_slice *out, uint32_t ndim, const uint64_t *shape);

/* text: with its brackets.  Bounds are clipped as in Python; a single index must exist.
 * Errors: ZF_E_USAGE invalid notation, an index out of range, more axes than the tensor has, a step of 0. */
bool zf_slice_parse(struct zf_slice *out, const char *text, uint32_t ndim, const uint64_t *shape,
                    struct zf_err *err) ZF_CHECKED;

#endif
