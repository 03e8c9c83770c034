/* SPDX-License-Identifier: Apache-2.0 */
/* Eight to 32 elements at a time. */
#include "cast_kernels.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define WIDE __attribute__((target("avx2,f16c,fma")))

/* What is left over after the last whole vector goes through the reference. */
WIDE void cast_avx2_f64_to_f32(void *out, const void *in, size_t n)
{
    const double *from = in;
    float *to = out;
    size_t i = 0;

    for (; n - i >= 4; i += 4) {
        _mm_storeu_ps(to + i, _mm256_cvtpd_ps(_mm256_loadu_pd(from + i)));
    }
    cast_kernels_scalar()->f64_to_f32(to + i, from + i, n - i);
}

WIDE static void cast_avx2_f16_to_f32(void *out, const void *in, size_t n)
{
    const uint16_t *from = in;
    float *to = out;
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        _mm256_storeu_ps(
            to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
    }
    cast_kernels_scalar()->f16_to_f32(to + i, from + i, n - i);
}

WIDE void cast_avx2_bf16_to_f32(void *out, const void *in, size_t n)
{
    const uint16_t *from = in;
    uint32_t *to = out;
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(from + i));

        _mm256_storeu_si256((__m256i *)(void *)(to + i),
                            _mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
    }
    cast_kernels_scalar()->bf16_to_f32(to + i, from + i, n - i);
}

WIDE void cast_avx2_f32_to_f16(void *out, const void *in, size_t n)
{
    const float *from = in;
    uint16_t *to = out;
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);

        _mm_storeu_si128((__m128i *)(void *)(to + i), h);
    }
    cast_kernels_scalar()->f32_to_f16(to + i, from + i, n - i);
}

/* The upper half of each, rounded to nearest even, in the lower one.  Not for NaN, which could
 * carry into the sign. */
WIDE static inline __m256i cast_avx2_round(__m256 f)
{
    const __m256i u = _mm256_castps_si256(f);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));

    return _mm256_srli_epi32(up, 16);
}

WIDE static inline __m256i cast_avx2_round_nan(__m256 f, __m256i nan)
{
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(f, f, _CMP_UNORD_Q));

    return _mm256_blendv_epi8(cast_avx2_round(f), nan, is_nan);
}

/* The lower halves of 16 lanes. */
WIDE static inline void cast_avx2_put_16(uint16_t *to, __m256i first, __m256i second)
{
    const __m256i h = _mm256_packus_epi32(first, second);

    /* Packing works on halves of the vector: put the quarters back in order. */
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permute4x64_epi64(h, 0xd8));
}

/* A NaN is rare: whether there is any among 32 is asked at once. */
WIDE static void cast_avx2_f32_to_bf16(void *out, const void *in, size_t n, uint16_t nan)
{
    const float *from = in;
    uint16_t *to = out;
    const __m256i nans = _mm256_set1_epi32(nan);
    size_t i = 0;

    for (; n - i >= 32; i += 32) {
        const __m256 a = _mm256_loadu_ps(from + i), b = _mm256_loadu_ps(from + i + 8),
                     c = _mm256_loadu_ps(from + i + 16), d = _mm256_loadu_ps(from + i + 24);

        if (_mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q),
                                            _mm256_cmp_ps(c, d, _CMP_UNORD_Q)))) {
            cast_avx2_put_16(to + i, cast_avx2_round_nan(a, nans), cast_avx2_round_nan(b, nans));
            cast_avx2_put_16(to + i + 16, cast_avx2_round_nan(c, nans),
                             cast_avx2_round_nan(d, nans));
        } else {
            cast_avx2_put_16(to + i, cast_avx2_round(a), cast_avx2_round(b));
            cast_avx2_put_16(to + i + 16, cast_avx2_round(c), cast_avx2_round(d));
        }
    }
    cast_kernels_scalar()->f32_to_bf16(to + i, from + i, n - i, nan);
}

/* The same in two instructions, for what was an f16 (11 bits, none of them subnormal): in f + 2^16 f
 * the bits to be rounded off are below the last one, and 2^16 f is then taken away.  Zero loses its
 * sign, infinity and NaN become NaN. */
WIDE static inline __m256 cast_avx2_round_half(__m256 f)
{
    const __m256 both = _mm256_mul_ps(f, _mm256_set1_ps(0x10001));

    return _mm256_fnmadd_ps(f, _mm256_set1_ps(0x10000), both);
}

WIDE static inline __m256 cast_avx2_load_half(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

/* Eight; of any kind. */
WIDE static inline void cast_avx2_put_half(uint16_t *to, __m256 f)
{
    const __m256i r = cast_avx2_round_nan(f, _mm256_set1_epi32(NAN_OF_SMALL));

    _mm_storeu_si128((__m128i *)(void *)to,
                     _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)));
}

WIDE static inline void cast_avx2_put_upper(uint16_t *to, __m256 a, __m256 b)
{
    cast_avx2_put_16(to, _mm256_srli_epi32(_mm256_castps_si256(a), 16),
                     _mm256_srli_epi32(_mm256_castps_si256(b), 16));
}

/* Zeros, infinities and NaNs are not frequent among weights: a product of four values says whether
 * there is one among 32 (it cannot be one of these otherwise, as they are within 2^-24 and 2^16). */
WIDE static void cast_avx2_f16_to_bf16(void *out, const void *in, size_t n)
{
    const uint16_t *from = in;
    uint16_t *to = out;
    size_t i = 0;

    for (; n - i >= 32; i += 32) {
        const __m256 a = cast_avx2_round_half(cast_avx2_load_half(from + i)),
                     b = cast_avx2_round_half(cast_avx2_load_half(from + i + 8)),
                     c = cast_avx2_round_half(cast_avx2_load_half(from + i + 16)),
                     d = cast_avx2_round_half(cast_avx2_load_half(from + i + 24));
        const __m256 all = _mm256_mul_ps(_mm256_mul_ps(a, b), _mm256_mul_ps(c, d));

        if (_mm256_movemask_ps(_mm256_cmp_ps(all, _mm256_setzero_ps(), _CMP_EQ_UQ))) {
            for (size_t k = i; k < i + 32; k += 8) {
                cast_avx2_put_half(to + k, cast_avx2_load_half(from + k));
            }
        } else {
            cast_avx2_put_upper(to + i, a, b);
            cast_avx2_put_upper(to + i + 16, c, d);
        }
    }
    cast_kernels_run(cast_kernels_scalar(), to + i, ZF_DT_BF16, from + i, ZF_DT_F16, n - i);
}

WIDE static inline void cast_avx2_put_f16(uint16_t *to, __m256i f)
{
    _mm_storeu_si128((__m128i *)(void *)to,
                     _mm256_cvtps_ph(_mm256_castsi256_ps(f), _MM_FROUND_TO_NEAREST_INT));
}

WIDE static void cast_avx2_bf16_to_f16(void *out, const void *in, size_t n)
{
    const uint16_t *from = in;
    uint16_t *to = out;
    const __m256i zero = _mm256_setzero_si256();
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        /* In the order in which unpacking the halves gives them back. */
        const __m256i h = _mm256_permute4x64_epi64(
            _mm256_loadu_si256((const __m256i *)(const void *)(from + i)), 0xd8);

        cast_avx2_put_f16(to + i, _mm256_unpacklo_epi16(zero, h));
        cast_avx2_put_f16(to + i + 8, _mm256_unpackhi_epi16(zero, h));
    }
    cast_kernels_run(cast_kernels_scalar(), to + i, ZF_DT_F16, from + i, ZF_DT_BF16, n - i);
}

/* Asked of the CPU itself, because not every compiler's builtin knows the word.  The builtin for
 * AVX2 is reported only where the system saves the wide registers. */
static bool cast_avx2_has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;

    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

const struct cast_kernels *cast_kernels_avx2(void)
{
    static const struct cast_kernels kernels = {
        .name = "avx2",
        .f64_to_f32 = cast_avx2_f64_to_f32,
        .f16_to_f32 = cast_avx2_f16_to_f32,
        .bf16_to_f32 = cast_avx2_bf16_to_f32,
        .f32_to_f16 = cast_avx2_f32_to_f16,
        .f32_to_bf16 = cast_avx2_f32_to_bf16,
        .f16_to_bf16 = cast_avx2_f16_to_bf16,
        .bf16_to_f16 = cast_avx2_bf16_to_f16,
        .look_up = cast_avx2_look_up,
    };

    /* cpuid costs microseconds in a virtual machine, more than most casts. */
    static _Atomic int known; /* 0 = not asked yet, 1 = no, 2 = yes */
    int is = known;

    if (is == 0) {
        is = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cast_avx2_has_f16c()
                 ? 2
                 : 1;
        known = is;
    }
    return is == 2 ? &kernels : NULL;
}

#else

const struct cast_kernels *cast_kernels_avx2(void)
{
    return NULL;
}

#endif
