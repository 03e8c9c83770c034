/* SPDX-License-Identifier: Apache-2.0 */
/* The reference: integer arithmetic on bit patterns, the same on every CPU. */
#include <string.h>

#include "cast_kernels.h"
#include "cast_tiny.h"

void cast_scalar_f64_to_f32(void *out, const void *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double d;
        float f;

        memcpy(&d, (const char *)in + i * sizeof d, sizeof d);
        f = (float)d;
        memcpy((char *)out + i * sizeof f, &f, sizeof f);
    }
}

static uint32_t cast_scalar_half_to_bits(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 0x1f, frac = h & 0x3ff;

    if (exp == 31) {
        return sign | 0x7f800000 | frac << 13 | (frac ? 0x400000 : 0);
    }
    if (exp > 0) {
        return sign | (exp + 112) << 23 | frac << 13;
    }
    if (frac == 0) {
        return sign;
    }
    /* Subnormal in f16, normal in f32: its highest bit becomes the hidden one. */
    uint32_t shift = (uint32_t)__builtin_clz(frac) - 21;
    return sign | (113 - shift) << 23 | (frac << shift & 0x3ff) << 13;
}

static void cast_scalar_f16_to_f32(void *out, const void *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        uint32_t f;

        memcpy(&h, (const char *)in + i * sizeof h, sizeof h);
        f = cast_scalar_half_to_bits(h);
        memcpy((char *)out + i * sizeof f, &f, sizeof f);
    }
}

static void cast_scalar_bf16_to_f32(void *out, const void *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        uint32_t f;

        memcpy(&h, (const char *)in + i * sizeof h, sizeof h);
        f = (uint32_t)h << 16;
        memcpy((char *)out + i * sizeof f, &f, sizeof f);
    }
}

/* value >> shift, the bits shifted out rounded to nearest even.  0 < shift < 32 */
static uint32_t cast_scalar_shift_round(uint32_t value, uint32_t shift)
{
    uint32_t half = UINT32_C(1) << (shift - 1);

    return (value + half - 1 + (value >> shift & 1)) >> shift;
}

static uint16_t cast_scalar_bits_to_half(uint32_t f)
{
    uint32_t sign = f >> 16 & 0x8000, mag = f & 0x7fffffff;

    if (mag > 0x7f800000) {
        return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x3ff));
    }
    if (mag >= 0x47800000) {
        return (uint16_t)(sign | 0x7c00); /* 65536 and more */
    }
    if (mag >= 0x38800000) {
        /* Rounding may carry into the exponent, and from 65520 on into infinity: both are right. */
        return (uint16_t)(sign | cast_scalar_shift_round(mag - 0x38000000, 13));
    }
    uint32_t exp = mag >> 23;
    if (exp < 102) {
        return (uint16_t)sign; /* less than half of the smallest subnormal */
    }
    return (uint16_t)(sign | cast_scalar_shift_round((mag & 0x7fffff) | 0x800000, 126 - exp));
}

static void cast_scalar_f32_to_f16(void *out, const void *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t f;
        uint16_t h;

        memcpy(&f, (const char *)in + i * sizeof f, sizeof f);
        h = cast_scalar_bits_to_half(f);
        memcpy((char *)out + i * sizeof h, &h, sizeof h);
    }
}

static void cast_scalar_f32_to_bf16(void *out, const void *in, size_t n, uint16_t nan)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t f;
        uint16_t h;

        memcpy(&f, (const char *)in + i * sizeof f, sizeof f);
        h = (f & 0x7fffffff) > 0x7f800000 ? nan : (uint16_t)cast_scalar_shift_round(f, 16);
        memcpy((char *)out + i * sizeof h, &h, sizeof h);
    }
}

void cast_scalar_look_up(void *out, const void *in, size_t n, const struct cast_tiny *t)
{
    const uint8_t *from = in;

    for (size_t i = 0; t->size == 2 && i < n; i++) {
        memcpy((char *)out + i * 2, &t->half[from[i]], 2);
    }
    for (size_t i = 0; t->size == 4 && i < n; i++) {
        memcpy((char *)out + i * 4, &t->whole[from[i]], 4);
    }
}

const struct cast_kernels *cast_kernels_scalar(void)
{
    static const struct cast_kernels kernels = {
        .name = "scalar",
        .f64_to_f32 = cast_scalar_f64_to_f32,
        .f16_to_f32 = cast_scalar_f16_to_f32,
        .bf16_to_f32 = cast_scalar_bf16_to_f32,
        .f32_to_f16 = cast_scalar_f32_to_f16,
        .f32_to_bf16 = cast_scalar_f32_to_bf16,
        .look_up = cast_scalar_look_up,
    };

    return &kernels;
}
