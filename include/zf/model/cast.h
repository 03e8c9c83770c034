/* SPDX-License-Identifier: Apache-2.0 */
/* Casts between floating types exactly as torch's `.to()` does on CPU: through f32 (f64 to a
 * 16-bit type rounds twice), each step to nearest even, infinities and subnormals kept, too
 * large becomes infinity.
 *
 * NaN, as torch 2.13 on x86-64 writes it:
 *   to f32    the payload's upper bits are kept; from f64, f16 and f8_e5m2 it becomes quiet, from bf16 it is unchanged;
 *             f8_e4m3 gives 7ff00000 with its sign, the types with one NaN (fnuz, e8m0) 7f800001
 *   to f16    sign and the payload's upper bits are kept, and it becomes quiet
 *   to bf16   ffff from f32 and f64, 7fc0 from all others
 * (torch itself writes 7fc0 for a NaN among the last few elements of an f64 tensor whose length is
 * no multiple of 16: its scalar and its vector code differ.)
 * Source: c10/util/BFloat16.h, Half.h, Float8_*.h, ATen/cpu/vec; observed for all 8- and 16-bit
 * patterns and some millions of random ones. */
#ifndef ZF_MODEL_CAST_H
#define ZF_MODEL_CAST_H

#include <zf/base/dtype.h>

/* Can `from` be cast to `to`?  from: any 'f' dtype (f64, f32, f16, bf16, f8 kinds); to: F32,
 * F16, BF16. */
bool zf_can_cast(enum zf_dtype from, enum zf_dtype to);

/* Casts n elements.  in and out must not overlap; no alignment is needed.  Uses the fastest code for this CPU. */
void zf_cast(void *out, enum zf_dtype to, const void *in, enum zf_dtype from, size_t n);

#endif
