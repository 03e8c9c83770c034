/* SPDX-License-Identifier: Apache-2.0 */
/* No two vectors of an optimizer are one: what refers to the record of another would be served under the
 * right name with the wrong bytes. */
#ifndef FORMAT_DEEPSPEED_OVERLAP_H
#define FORMAT_DEEPSPEED_OVERLAP_H

#include "steps.h"

/* Bytes of a source, and what has them: a state, or "the masters", of a parameter. */
struct ds_overlap_bytes {
    const struct zf_source *src;
    uint64_t off, end;
    struct ds_name what, of;
    uint32_t group; /* of.p = NULL: of this group */
};

/* {0} is an empty list; the texts are the caller's. */
struct ds_overlap {
    zf_vec(struct ds_overlap_bytes);
};
static inline void zf_auto_overlap(struct ds_overlap *a)
{
    zf_vec_fini(a);
}

/* Adds n elements; none are nothing.  Errors: ZF_E_NOMEM. */
bool ds_overlap_add(struct ds_overlap *a, const struct ds_overlap_bytes *at, enum zf_dtype dtype,
                    uint64_t n, struct zf_err *err) ZF_CHECKED;
/* Errors: ZF_E_FORMAT naming two that have bytes in common. */
bool ds_overlap_check(struct ds_overlap *a, struct zf_err *err) ZF_CHECKED;

#endif
