/* SPDX-License-Identifier: Apache-2.0 */
/* Casts of 8-bit types with AVX2, which has too few registers for tables of 256: 32 bytes at a time
 * by tables of 16. */
#include "cast_kernels.h"
#include "cast_tiny.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDE __attribute__((target("avx2")))

/* A form in registers: tables once in each half. */
struct form {
    __m256i line, line_low, line_high, first_low, first_high, row, wild, rare;
};

WIDE static __m256i cast_tiny_table(const uint8_t *sixteen)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)sixteen));
}

WIDE static struct form cast_tiny_spread(const struct cast_tiny *f)
{
    return (struct form){.line = _mm256_set1_epi8((char)f->line),
                         .line_low = cast_tiny_table(f->line_low),
                         .line_high = cast_tiny_table(f->line_high),
                         .first_low = cast_tiny_table(f->first_low),
                         .first_high = cast_tiny_table(f->first_high),
                         .row = cast_tiny_table(f->row),
                         .wild = _mm256_set1_epi8((char)f->wild),
                         .rare = _mm256_set1_epi8((char)f->rare)};
}

/* The lower and the upper bytes of the upper halves of 32 elements.  False: there is a rare one
 * among them. */
WIDE static inline bool cast_tiny_upper(const struct form *f, __m256i x, __m256i *low,
                                        __m256i *high)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i column = _mm256_and_si256(x, nibble);
    const __m256i row = _mm256_and_si256(_mm256_srli_epi16(x, 4), nibble);
    const __m256i first = _mm256_cmpeq_epi8(_mm256_and_si256(x, f->line), _mm256_setzero_si256());
    const __m256i sum = _mm256_blendv_epi8(_mm256_shuffle_epi8(f->line_high, column),
                                           _mm256_shuffle_epi8(f->first_high, column), first);

    *low = _mm256_blendv_epi8(_mm256_shuffle_epi8(f->line_low, column),
                              _mm256_shuffle_epi8(f->first_low, column), first);
    *high = _mm256_add_epi8(_mm256_shuffle_epi8(f->row, row), sum);
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_or_si256(x, f->wild), f->rare)) == 0;
}

WIDE static size_t cast_tiny_to_16(uint16_t *out, const uint8_t *in, size_t n,
                                   const struct cast_tiny *t)
{
    const struct form f = cast_tiny_spread(t);
    size_t i = 0;

    for (; n - i >= 32; i += 32) {
        /* In the order in which unpacking the halves gives them back. */
        const __m256i x = _mm256_permute4x64_epi64(
            _mm256_loadu_si256((const __m256i *)(const void *)(in + i)), 0xd8);
        __m256i low, high;

        if (cast_tiny_upper(&f, x, &low, &high)) {
            _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_unpacklo_epi8(low, high));
            _mm256_storeu_si256((__m256i *)(void *)(out + i + 16), _mm256_unpackhi_epi8(low, high));
        } else {
            cast_scalar_look_up(out + i, in + i, 32, t);
        }
    }
    return i;
}

/* 16 elements, whose lower halves are zero. */
WIDE static inline void cast_tiny_put_16(uint32_t *out, __m256i upper)
{
    const __m256i zero = _mm256_setzero_si256();

    _mm256_storeu_si256((__m256i *)(void *)out, _mm256_unpacklo_epi16(zero, upper));
    _mm256_storeu_si256((__m256i *)(void *)(out + 8), _mm256_unpackhi_epi16(zero, upper));
}

WIDE static size_t cast_tiny_to_32(uint32_t *out, const uint8_t *in, size_t n,
                                   const struct cast_tiny *t)
{
    const struct form f = cast_tiny_spread(t);
    const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    size_t i = 0;

    for (; n - i >= 32; i += 32) {
        /* In the order in which unpacking the halves twice gives them back. */
        const __m256i x = _mm256_permutevar8x32_epi32(
            _mm256_loadu_si256((const __m256i *)(const void *)(in + i)), order);
        __m256i low, high;

        if (cast_tiny_upper(&f, x, &low, &high)) {
            cast_tiny_put_16(out + i, _mm256_unpacklo_epi8(low, high));
            cast_tiny_put_16(out + i + 16, _mm256_unpackhi_epi8(low, high));
        } else {
            cast_scalar_look_up(out + i, in + i, 32, t);
        }
    }
    return i;
}

void cast_avx2_look_up(void *out, const void *in, size_t n, const struct cast_tiny *t)
{
    size_t i = 0;

    if (t->in_rows) {
        i = t->size == 2 ? cast_tiny_to_16(out, in, n, t) : cast_tiny_to_32(out, in, n, t);
    }
    cast_scalar_look_up((char *)out + i * t->size, (const char *)in + i, n - i, t);
}

#endif
