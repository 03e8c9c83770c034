/* SPDX-License-Identifier: Apache-2.0 */
/* Casts of 8-bit types: a table of 256 elements that is kept in registers, a plane for each byte of
 * an element, and looked up for 64 bytes at once (AVX-512's VBMI). */
#include "cast_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))

/* One byte of each of 256 elements. */
struct plane {
    __m512i quarter[4];
};

WIDE static struct plane cast_vbmi_plane(const uint8_t *table, uint32_t size, uint32_t byte)
{
    uint8_t flat[256];

    for (unsigned x = 0; x < 256; x++) {
        flat[x] = table[x * size + byte];
    }
    return (struct plane){{_mm512_loadu_si512(flat), _mm512_loadu_si512(flat + 64),
                           _mm512_loadu_si512(flat + 128), _mm512_loadu_si512(flat + 192)}};
}

WIDE static __m512i cast_vbmi_look(const struct plane *p, __m512i x)
{
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x),
                                  _mm512_permutex2var_epi8(p->quarter[0], x, p->quarter[1]),
                                  _mm512_permutex2var_epi8(p->quarter[2], x, p->quarter[3]));
}

/* 64 bytes in the order in which unpacking their two halves gives them back. */
WIDE static __m512i cast_vbmi_load(const void *in)
{
    return _mm512_permutexvar_epi64(_mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0), _mm512_loadu_si512(in));
}

WIDE static size_t cast_vbmi_to_16(uint16_t *out, const uint8_t *in, size_t n, const uint8_t *table)
{
    const struct plane low = cast_vbmi_plane(table, 2, 0), high = cast_vbmi_plane(table, 2, 1);
    size_t i = 0;

    for (; n - i >= 64; i += 64) {
        const __m512i x = cast_vbmi_load(in + i);
        const __m512i l = cast_vbmi_look(&low, x), h = cast_vbmi_look(&high, x);

        _mm512_storeu_si512(out + i, _mm512_unpacklo_epi8(l, h));
        _mm512_storeu_si512(out + i + 32, _mm512_unpackhi_epi8(l, h));
    }
    return i;
}

WIDE static void cast_vbmi_put_32(uint32_t *out, __m512i low, __m512i high)
{
    static const uint16_t in_turn[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                         8,  40, 9,  41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i first = _mm512_loadu_si512(in_turn);
    const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));

    _mm512_storeu_si512(out, _mm512_permutex2var_epi16(low, first, high));
    _mm512_storeu_si512(out + 16, _mm512_permutex2var_epi16(low, second, high));
}

WIDE static size_t cast_vbmi_to_32(uint32_t *out, const uint8_t *in, size_t n, const uint8_t *table)
{
    const struct plane p[4] = {cast_vbmi_plane(table, 4, 0), cast_vbmi_plane(table, 4, 1),
                               cast_vbmi_plane(table, 4, 2), cast_vbmi_plane(table, 4, 3)};
    size_t i = 0;

    for (; n - i >= 64; i += 64) {
        const __m512i x = cast_vbmi_load(in + i);
        const __m512i a = cast_vbmi_look(&p[0], x), b = cast_vbmi_look(&p[1], x),
                      c = cast_vbmi_look(&p[2], x), d = cast_vbmi_look(&p[3], x);

        cast_vbmi_put_32(out + i, _mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
        cast_vbmi_put_32(out + i + 32, _mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
    }
    return i;
}

void cast_vbmi_look_up(void *out, const void *in, size_t n, const void *table, uint32_t size)
{
    size_t i = size == 2 ? cast_vbmi_to_16(out, in, n, table) : cast_vbmi_to_32(out, in, n, table);

    cast_scalar_look_up((char *)out + i * size, (const char *)in + i, n - i, table, size);
}

#endif
