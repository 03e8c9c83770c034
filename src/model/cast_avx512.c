/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen elements at a time and more, where that is faster than the eight of AVX2; what is left to
 * those is bound by memory either way.  AVX-512's own bfloat16 instruction is left alone: it
 * flushes subnormals to zero. */
#include "cast_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))

/* What is left over after the last whole vector goes through the reference. */
WIDE static void cast_avx512_f16_to_f32(void *out, const void *in, size_t n)
{
    const uint16_t *from = in;
    float *to = out;
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));

        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(h));
    }
    cast_kernels_scalar()->f16_to_f32(to + i, from + i, n - i);
}

/* Rounded to nearest even in the upper half of each. */
WIDE static inline __m512i cast_avx512_round(__m512 f)
{
    __m512i u = _mm512_castps_si512(f);
    __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
    __m512i up = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));

    return _mm512_mask_sub_epi32(up, odd, up, _mm512_set1_epi32(-1));
}

/* The upper halves of 32 floats; nan where `is_nan` says so. */
WIDE static inline void cast_avx512_put_upper(void *out, __m512i first, __m512i second,
                                              __mmask32 is_nan, __m512i nan)
{
    static const uint16_t odd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                     23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                     45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    __m512i h = _mm512_permutex2var_epi16(first, _mm512_loadu_si512(odd), second);

    _mm512_storeu_si512(out, _mm512_mask_mov_epi16(h, is_nan, nan));
}

/* Which of 32 are NaN. */
WIDE static inline __mmask32 cast_avx512_nans(__m512 first, __m512 second)
{
    return _mm512_kunpackw(_mm512_cmp_ps_mask(second, second, _CMP_UNORD_Q),
                           _mm512_cmp_ps_mask(first, first, _CMP_UNORD_Q));
}

WIDE static void cast_avx512_f32_to_bf16(void *out, const void *in, size_t n, uint16_t nan)
{
    const float *from = in;
    uint16_t *to = out;
    const __m512i nans = _mm512_set1_epi16((short)nan);
    size_t i = 0;

    for (; n - i >= 32; i += 32) {
        __m512 a = _mm512_loadu_ps(from + i), b = _mm512_loadu_ps(from + i + 16);

        cast_avx512_put_upper(to + i, cast_avx512_round(a), cast_avx512_round(b),
                              cast_avx512_nans(a, b), nans);
    }
    cast_kernels_scalar()->f32_to_bf16(to + i, from + i, n - i, nan);
}

/* As cast_avx2_round_half. */
WIDE static inline __m512 cast_avx512_round_half(__m512 f)
{
    const __m512 both = _mm512_mul_ps(f, _mm512_set1_ps(0x10001));

    return _mm512_fnmadd_ps(f, _mm512_set1_ps(0x10000), both);
}

/* Zeros, infinities and NaNs go the longer way, as with AVX2. */
WIDE static void cast_avx512_f16_to_bf16(void *out, const void *in, size_t n)
{
    const uint16_t *from = in;
    uint16_t *to = out;
    const __m512i nans = _mm512_set1_epi16(NAN_OF_SMALL);
    size_t i = 0;

    for (; n - i >= 32; i += 32) {
        const __m512 a = _mm512_cvtph_ps(
                         _mm256_loadu_si256((const __m256i *)(const void *)(from + i))),
                     b = _mm512_cvtph_ps(
                         _mm256_loadu_si256((const __m256i *)(const void *)(from + i + 16)));
        const __m512 x = cast_avx512_round_half(a), y = cast_avx512_round_half(b);

        if (_mm512_cmp_ps_mask(_mm512_mul_ps(x, y), _mm512_setzero_ps(), _CMP_EQ_UQ)) {
            const __mmask32 is_nan = cast_avx512_nans(a, b);

            cast_avx512_put_upper(to + i, cast_avx512_round(a), cast_avx512_round(b), is_nan, nans);
        } else {
            cast_avx512_put_upper(to + i, _mm512_castps_si512(x), _mm512_castps_si512(y), 0, nans);
        }
    }
    cast_kernels_run(cast_kernels_scalar(), to + i, ZF_DT_BF16, from + i, ZF_DT_F16, n - i);
}

WIDE static void cast_avx512_bf16_to_f16(void *out, const void *in, size_t n)
{
    const uint16_t *from = in;
    uint16_t *to = out;
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        __m512i w =
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(from + i)));
        __m512 f = _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));

        _mm256_storeu_si256((__m256i *)(void *)(to + i),
                            _mm512_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT));
    }
    cast_kernels_run(cast_kernels_scalar(), to + i, ZF_DT_F16, from + i, ZF_DT_BF16, n - i);
}

const struct cast_kernels *cast_kernels_avx512(void)
{
    static const struct cast_kernels kernels = {
        .name = "avx512",
        .f64_to_f32 = cast_avx2_f64_to_f32,
        .f16_to_f32 = cast_avx512_f16_to_f32,
        .bf16_to_f32 = cast_avx2_bf16_to_f32,
        .f32_to_f16 = cast_avx2_f32_to_f16,
        .f32_to_bf16 = cast_avx512_f32_to_bf16,
        .f16_to_bf16 = cast_avx512_f16_to_bf16,
        .bf16_to_f16 = cast_avx512_bf16_to_f16,
        .look_up = cast_vbmi_look_up,
    };

    /* cpuid costs microseconds in a virtual machine, more than most casts. */
    static _Atomic int known; /* 0 = not asked yet, 1 = no, 2 = yes */
    int is = known;

    if (is == 0) {
        is = cast_kernels_avx2() && __builtin_cpu_supports("avx512f") &&
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512vbmi")
                 ? 2
                 : 1;
        known = is;
    }
    return is == 2 ? &kernels : NULL;
}

#else

const struct cast_kernels *cast_kernels_avx512(void)
{
    return NULL;
}

#endif
