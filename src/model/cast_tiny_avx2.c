/* SPDX-License-Identifier: Apache-2.0 */
/* Casts of 8-bit types with AVX2, whose 16 lanes of 16 bits are too few to hold a table of 256:
 * what the table says is computed.  Of an 8-bit float the upper half of the f32 (or the bf16, the
 * f16) is a straight line over the magnitude, except for the subnormals and what is not finite,
 * which are among the first and the last eight magnitudes; the sign is added.  Whether a table is
 * of that form is not assumed: each of its 256 elements is compared, and one that is not (f8_e8m0)
 * is looked up element by element. */
#include "cast_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define WIDE __attribute__((target("avx2")))

/* How the upper 16 bits of all elements of a table are made from the byte. */
struct form {
    uint16_t base, slope; /* of the line over the magnitude, the lower seven bits */
    uint16_t sign;        /* is added for 0x80 and above, … */
    uint16_t end;         /* … whose magnitude is below this */
    uint16_t first[8], last[8];
    uint8_t odd; /* the one byte that is like no other: … */
    uint16_t odd_high,
        odd_low; /* … what it becomes; of no other are the lower 16 bits of an f32 used */
};

/* Element x of the table in 32 bits; one of 16 bits is the upper half. */
static uint32_t cast_tiny_element(const void *table, uint32_t size, unsigned x)
{
    uint16_t half;
    uint32_t whole;

    if (size == 4) {
        memcpy(&whole, (const char *)table + x * sizeof whole, sizeof whole);
        return whole;
    }
    memcpy(&half, (const char *)table + x * sizeof half, sizeof half);
    return (uint32_t)half << 16;
}

static uint32_t cast_tiny_say(const struct form *f, unsigned x)
{
    const unsigned mag = x & 0x7f;
    unsigned high = mag < 8       ? f->first[mag]
                    : mag >= 0x78 ? f->last[mag & 7]
                                  : f->base + mag * f->slope;

    if (x == f->odd) {
        return (uint32_t)f->odd_high << 16 | f->odd_low;
    }
    high += x >= 0x80 && mag < f->end ? f->sign : 0;
    return high << 16;
}

/* False: the table is of another form. */
static bool cast_tiny_form(struct form *f, const void *table, uint32_t size)
{
    uint16_t high[256];

    f->odd = 0x80;
    for (unsigned x = 0; x < 256; x++) {
        const uint32_t e = cast_tiny_element(table, size, x);

        high[x] = (uint16_t)(e >> 16);
        f->odd = e & 0xffff ? (uint8_t)x : f->odd;
    }
    f->odd_high = high[f->odd];
    f->odd_low = (uint16_t)cast_tiny_element(table, size, f->odd);
    f->slope = (uint16_t)(high[0x21] - high[0x20]);
    f->base = (uint16_t)(high[0x20] - 0x20 * f->slope);
    f->sign = (uint16_t)(high[0xa0] - high[0x20]);
    for (f->end = 0x80; f->end > 0x78 && high[0x7f + f->end] == high[f->end - 1]; f->end--) {
    }
    memcpy(f->first, high, sizeof f->first);
    memcpy(f->last, high + 0x78, sizeof f->last);
    for (unsigned x = 0; x < 256; x++) {
        if (cast_tiny_say(f, x) != cast_tiny_element(table, size, x)) {
            return false;
        }
    }
    return true;
}

/* The same for registers. */
struct form_vec {
    __m256i base, slope, sign, end, first, last, odd, odd_high, odd_low;
};

WIDE static __m256i cast_tiny_table(const uint16_t *eight)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)eight));
}

WIDE static struct form_vec cast_tiny_spread(const struct form *f)
{
    return (struct form_vec){.base = _mm256_set1_epi16((short)f->base),
                             .slope = _mm256_set1_epi16((short)f->slope),
                             .sign = _mm256_set1_epi16((short)f->sign),
                             .end = _mm256_set1_epi16((short)f->end),
                             .first = cast_tiny_table(f->first),
                             .last = cast_tiny_table(f->last),
                             .odd = _mm256_set1_epi16(f->odd),
                             .odd_high = _mm256_set1_epi16((short)f->odd_high),
                             .odd_low = _mm256_set1_epi16((short)f->odd_low)};
}

/* The upper halves of 16 elements, as cast_tiny_say; is_odd: all ones where the byte is the odd one. */
WIDE static inline __m256i cast_tiny_high(const struct form_vec *f, __m256i x, __m256i *is_odd)
{
    const __m256i mag = _mm256_and_si256(x, _mm256_set1_epi16(0x7f));
    /* The two bytes of element mag % 8 of a table of eight. */
    const __m256i at = _mm256_add_epi16(
        _mm256_mullo_epi16(_mm256_and_si256(x, _mm256_set1_epi16(7)), _mm256_set1_epi16(0x0202)),
        _mm256_set1_epi16(0x0100));
    __m256i v = _mm256_add_epi16(_mm256_mullo_epi16(mag, f->slope), f->base);

    v = _mm256_blendv_epi8(v, _mm256_shuffle_epi8(f->first, at),
                           _mm256_cmpgt_epi16(_mm256_set1_epi16(8), mag));
    v = _mm256_blendv_epi8(v, _mm256_shuffle_epi8(f->last, at),
                           _mm256_cmpgt_epi16(mag, _mm256_set1_epi16(0x77)));
    const __m256i negative = _mm256_and_si256(_mm256_cmpgt_epi16(x, _mm256_set1_epi16(0x7f)),
                                              _mm256_cmpgt_epi16(f->end, mag));
    v = _mm256_add_epi16(v, _mm256_and_si256(negative, f->sign));
    *is_odd = _mm256_cmpeq_epi16(x, f->odd);
    return _mm256_blendv_epi8(v, f->odd_high, *is_odd);
}

WIDE static size_t cast_tiny_to_16(uint16_t *out, const uint8_t *in, size_t n,
                                   const struct form *form)
{
    const struct form_vec f = cast_tiny_spread(form);
    __m256i is_odd;
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(in + i));

        _mm256_storeu_si256((__m256i *)(void *)(out + i),
                            cast_tiny_high(&f, _mm256_cvtepu8_epi16(x), &is_odd));
    }
    return i;
}

WIDE static size_t cast_tiny_to_32(uint32_t *out, const uint8_t *in, size_t n,
                                   const struct form *form)
{
    const struct form_vec f = cast_tiny_spread(form);
    __m256i is_odd;
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        /* In the order in which unpacking the two halves of the vector gives them back. */
        const __m128i x =
            _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(in + i)), 0xd8);
        const __m256i high = cast_tiny_high(&f, _mm256_cvtepu8_epi16(x), &is_odd);
        const __m256i low = _mm256_and_si256(is_odd, f.odd_low);

        _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_unpacklo_epi16(low, high));
        _mm256_storeu_si256((__m256i *)(void *)(out + i + 8), _mm256_unpackhi_epi16(low, high));
    }
    return i;
}

void cast_avx2_look_up(void *out, const void *in, size_t n, const void *table, uint32_t size)
{
    struct form f;
    size_t i = 0;

    if (cast_tiny_form(&f, table, size)) {
        i = size == 2 ? cast_tiny_to_16(out, in, n, &f) : cast_tiny_to_32(out, in, n, &f);
    }
    cast_scalar_look_up((char *)out + i * size, (const char *)in + i, n - i, table, size);
}

#endif
