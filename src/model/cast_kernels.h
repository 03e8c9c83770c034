/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of casting: one source (cast_lanes.h), compiled for three vector widths, with
 * bit-identical results. */
#ifndef MODEL_CAST_KERNELS_H
#define MODEL_CAST_KERNELS_H

#include <zf/model/cast.h>

/* Casts n elements; neither side is aligned, and from != to. */
typedef void cast_kernel(void *out, enum zf_dtype to, const void *in, enum zf_dtype from, size_t n);

/* Vectors of the compiler (gcc and clang): NEON on arm64, SSE2 on an x86-64 without AVX2. */
cast_kernel *cast_kernel_vector(void);
/* NULL if this CPU or this build lacks AVX2, F16C and FMA. */
cast_kernel *cast_kernel_avx2(void);
/* NULL without AVX-512 (F, BW, VL: since Skylake-X and Zen 4). */
cast_kernel *cast_kernel_avx512(void);
/* The fastest of these on this CPU. */
cast_kernel *cast_kernel_best(void);

#endif
