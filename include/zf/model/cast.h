/* SPDX-License-Identifier: Apache-2.0 */
/* Casts between floating types exactly as torch's `.to()` does on CPU: round to nearest even, infinities and
 * subnormals kept, NaN as documented in zerofs(5). */
#ifndef ZF_MODEL_CAST_H
#define ZF_MODEL_CAST_H

#include <zf/base/dtype.h>

/* Can `from` be cast to `to`?  from: any 'f' dtype (f64, f32, f16, bf16, f8 kinds); to: F32, F16, BF16. */
bool zf_can_cast(enum zf_dtype from, enum zf_dtype to);

/* Casts n elements.  in and out do not overlap; no alignment is needed.  Picks the fastest code of this CPU. */
void zf_cast(void *out, enum zf_dtype to, const void *in, enum zf_dtype from, size_t n);

#endif
