/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by both ways to prove which weights a vector of masters belongs to. */
#ifndef ASSEMBLE_PROVE_H
#define ASSEMBLE_PROVE_H

#include <zf/assemble/prove.h>

/* The number of the vector's elements. */
static inline uint64_t prove_end(const struct zf_prove_vector *v)
{
    return v->begin[v->n_parts];
}

/* Charges work to the budget; fails when it is used up. */
bool prove_spend(struct zf_prove *p, uint64_t work, struct zf_err *err) ZF_CHECKED;

/* The values from element y of the vector on; *left: their number within its part. */
struct zf_values prove_at(const struct zf_prove_vector *v, uint64_t y, uint64_t *left);

/* *yes: do the masters from element `at` on round to weight i?  If not, *miss is the first difference, if their types can
 * be compared. */
bool prove_compare(struct zf_prove *p, const struct zf_prove_vector *v, uint64_t at, uint32_t i,
                   struct zf_mismatch *miss, bool *yes, struct zf_err *err) ZF_CHECKED;

#endif
