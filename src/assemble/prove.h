/* SPDX-License-Identifier: Apache-2.0 */
/* Common to both ways of proving. */
#ifndef ASSEMBLE_PROVE_H
#define ASSEMBLE_PROVE_H

#include <zf/assemble/prove.h>

/* The vector's elements. */
static inline uint64_t prove_end(const struct zf_prove_vector *v)
{
    return v->begin[v->n_parts];
}

/* Spends work; it fails where all is spent. */
bool prove_spend(struct zf_prove *p, uint64_t work, struct zf_err *err) ZF_CHECKED;

/* The element y of the vector; *left: how many are in its part from there on. */
struct zf_values prove_at(const struct zf_prove_vector *v, uint64_t y, uint64_t *left);

/* Do the masters from element `at` on round to weight i?  Else *miss says where not, if their types can be compared. */
bool prove_compare(struct zf_prove *p, const struct zf_prove_vector *v, uint64_t at, uint32_t i,
                   struct zf_mismatch *miss, bool *yes, struct zf_err *err) ZF_CHECKED;

#endif
