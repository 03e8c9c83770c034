/* SPDX-License-Identifier: Apache-2.0 */
/* Casts of 8-bit types: a table of 256 elements that is kept in registers, a plane for each byte of
 * an element that is not always zero, and looked up for 64 bytes at once (AVX-512's VBMI). */
#include "cast_kernels.h"
#include "cast_tiny.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))

/* One byte of each of 256 elements. */
struct plane {
    __m512i quarter[4];
};

WIDE static struct plane cast_vbmi_plane(const uint8_t *byte)
{
    return (struct plane){{_mm512_loadu_si512(byte), _mm512_loadu_si512(byte + 64),
                           _mm512_loadu_si512(byte + 128), _mm512_loadu_si512(byte + 192)}};
}

WIDE static __m512i cast_vbmi_look(const struct plane *p, __m512i x)
{
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x),
                                  _mm512_permutex2var_epi8(p->quarter[0], x, p->quarter[1]),
                                  _mm512_permutex2var_epi8(p->quarter[2], x, p->quarter[3]));
}

WIDE static size_t cast_vbmi_to_16(uint16_t *out, const uint8_t *in, size_t n,
                                   const struct cast_tiny *t)
{
    const struct plane low = cast_vbmi_plane(t->low), high = cast_vbmi_plane(t->high);
    /* In the order in which unpacking the halves gives them back. */
    const __m512i order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
    size_t i = 0;

    for (; n - i >= 64; i += 64) {
        const __m512i x = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(in + i));
        const __m512i l = cast_vbmi_look(&low, x), h = cast_vbmi_look(&high, x);

        _mm512_storeu_si512(out + i, _mm512_unpacklo_epi8(l, h));
        _mm512_storeu_si512(out + i + 32, _mm512_unpackhi_epi8(l, h));
    }
    return i;
}

/* 32 elements, whose lower halves are zero. */
WIDE static void cast_vbmi_put_32(uint32_t *out, __m512i upper)
{
    const __m512i zero = _mm512_setzero_si512();

    _mm512_storeu_si512(out, _mm512_unpacklo_epi16(zero, upper));
    _mm512_storeu_si512(out + 16, _mm512_unpackhi_epi16(zero, upper));
}

WIDE static size_t cast_vbmi_to_32(uint32_t *out, const uint8_t *in, size_t n,
                                   const struct cast_tiny *t)
{
    const struct plane low = cast_vbmi_plane(t->low), high = cast_vbmi_plane(t->high);
    const __m512i wild = _mm512_set1_epi8((char)t->wild), rare = _mm512_set1_epi8((char)t->rare);
    /* In the order in which unpacking the halves twice gives them back. */
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    size_t i = 0;

    for (; n - i >= 64; i += 64) {
        const __m512i x = _mm512_permutexvar_epi32(order, _mm512_loadu_si512(in + i));

        if (_mm512_cmpeq_epi8_mask(_mm512_or_si512(x, wild), rare)) {
            cast_scalar_look_up(out + i, in + i, 64, t);
            continue;
        }
        const __m512i l = cast_vbmi_look(&low, x), h = cast_vbmi_look(&high, x);
        cast_vbmi_put_32(out + i, _mm512_unpacklo_epi8(l, h));
        cast_vbmi_put_32(out + i + 32, _mm512_unpackhi_epi8(l, h));
    }
    return i;
}

void cast_vbmi_look_up(void *out, const void *in, size_t n, const struct cast_tiny *t)
{
    size_t i = t->size == 2 ? cast_vbmi_to_16(out, in, n, t) : cast_vbmi_to_32(out, in, n, t);

    cast_scalar_look_up((char *)out + i * t->size, (const char *)in + i, n - i, t);
}

#endif
