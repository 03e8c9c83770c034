/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a DTensor a rank holds.  Source: torch/distributed/tensor/placement_types.py (2.6
 * … 2.14), and saves of FSDP2, tensor parallel and both, compared with the whole tensors. */
#ifndef ASSEMBLE_DTENSOR_RANGES_H
#define ASSEMBLE_DTENSOR_RANGES_H

#include <zf/codec/dtensor.h>

struct range {
    uint64_t lo, hi;
};

/* The part is the product of the dimensions' ranges: usually one range each, several after a
 * strided cut. */
struct dim_ranges {
    struct range *range;
    uint64_t n;
    uint64_t total; /* elements along the dimension */
};

/* Fills dim [dt->ndim], in arena a: what the rank at dt's coordinate owns.
 * Errors: ZF_E_UNSUPPORTED a partial sum, a strided cut that does not fit its mesh; ZF_E_LIMIT. */
bool ranges_dims(const struct zf_dtensor *dt, struct zf_arena *a, struct dim_ranges *dim,
                 struct zf_err *err) ZF_CHECKED;

#endif
