/* SPDX-License-Identifier: Apache-2.0 */
/* A strided tensor as the packed bytes of its elements in C order (a transposed parameter that was
 * saved with its strides). */
#ifndef FORMAT_DCP_GATHER_H
#define FORMAT_DCP_GATHER_H

#include <zf/source/source.h>

#define ZF_DCP_GATHER_DIMS 64

struct zf_dcp_strided {
    struct zf_source *src; /* the storage; the gathering source takes its own reference */
    uint64_t off_elems;    /* of the first element */
    uint32_t elem_bytes, ndim;
    const uint64_t *shape, *stride; /* [ndim] elements; copied */
};

/* Reads many elements with one read where they stand close to each other; holds 1 MiB while it
 * reads. Pre: every element lies inside src and the tensor is not empty. Errors: ZF_E_UNSUPPORTED
 * more than ZF_DCP_GATHER_DIMS dimensions; ZF_E_NOMEM. */
struct zf_source *zf_dcp_gather_new(struct zf_dcp_strided from, struct zf_err *err) ZF_CHECKED;

#endif
