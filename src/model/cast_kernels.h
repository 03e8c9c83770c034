/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of casting, in several builds that must agree bit for bit.  Neither side
 * is aligned. */
#ifndef MODEL_CAST_KERNELS_H
#define MODEL_CAST_KERNELS_H

#include <zf/model/cast.h>

struct cast_tiny;

/* A NaN of bf16 that was one of 16 or 8 bits; see cast_from_f32. */
#define NAN_OF_SMALL 0x7fc0

struct cast_kernels {
    const char *name;
    void (*f64_to_f32)(void *out, const void *in, size_t n);
    void (*f16_to_f32)(void *out, const void *in, size_t n);
    void (*bf16_to_f32)(void *out, const void *in, size_t n);
    void (*f32_to_f16)(void *out, const void *in, size_t n);
    void (*f32_to_bf16)(void *out, const void *in, size_t n, uint16_t nan);
    /* In one step, or NULL: by way of f32, in pieces. */
    void (*f16_to_bf16)(void *out, const void *in, size_t n);
    void (*bf16_to_f16)(void *out, const void *in, size_t n);
    /* Bytes of the input become elements of the table. */
    void (*look_up)(void *out, const void *in, size_t n, const struct cast_tiny *t);
};

const struct cast_kernels *cast_kernels_scalar(void);
/* Vectors of the compiler, for NEON and whatever else there is: integer arithmetic again, without
 * branches. */
const struct cast_kernels *cast_kernels_vector(void);
/* NULL when this CPU or this build has no AVX2, F16C and FMA. */
const struct cast_kernels *cast_kernels_avx2(void);
/* NULL without AVX-512 (F, BW, VL, VBMI: since Ice Lake and Zen 4). */
const struct cast_kernels *cast_kernels_avx512(void);
/* The fastest of these on this CPU. */
const struct cast_kernels *cast_kernels_best(void);

/* What the wider kernels take from the narrower ones; avx2: x86-64 alone. */
void cast_scalar_f64_to_f32(void *out, const void *in, size_t n);
void cast_scalar_look_up(void *out, const void *in, size_t n, const struct cast_tiny *t);
void cast_avx2_f64_to_f32(void *out, const void *in, size_t n);
void cast_avx2_bf16_to_f32(void *out, const void *in, size_t n);
void cast_avx2_f32_to_f16(void *out, const void *in, size_t n);
/* The one for AVX2. */
void cast_avx2_look_up(void *out, const void *in, size_t n, const struct cast_tiny *t);
/* The one with AVX-512's byte permutations (VBMI), where there are any. */
void cast_vbmi_look_up(void *out, const void *in, size_t n, const struct cast_tiny *t);

/* zf_cast with kernels of the caller's choice. */
void cast_kernels_run(const struct cast_kernels *k, void *out, enum zf_dtype to, const void *in,
                      enum zf_dtype from, size_t n);

#endif
