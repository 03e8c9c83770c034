/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that no two tensors of an optimizer share bytes: a tensor that refers to the storage of another
 * would be served under the right name with the wrong bytes. */
#ifndef FORMAT_DEEPSPEED_OVERLAP_H
#define FORMAT_DEEPSPEED_OVERLAP_H

#include "steps.h"

/* A range of bytes in a source, and the tensor there: a state, or "the masters", of a parameter. */
struct ds_overlap_bytes {
    const struct zf_source *src;
    uint64_t off, end;
    struct ds_name what, of;
    uint32_t group; /* if of.p is NULL: the tensor is of this group */
};

/* {0} is an empty list; strings are borrowed from the caller. */
struct ds_overlap {
    zf_vec(struct ds_overlap_bytes);
};
static inline void zf_auto_overlap(struct ds_overlap *a)
{
    zf_vec_fini(a);
}

/* Adds a tensor of n elements; ignored if n is 0.  Errors: ZF_E_NOMEM. */
bool ds_overlap_add(struct ds_overlap *a, const struct ds_overlap_bytes *at, enum zf_dtype dtype,
                    uint64_t n, struct zf_err *err) ZF_CHECKED;
/* Errors: ZF_E_FORMAT naming two tensors that share bytes. */
bool ds_overlap_check(struct ds_overlap *a, struct zf_err *err) ZF_CHECKED;

#endif
