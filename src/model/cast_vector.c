/* SPDX-License-Identifier: Apache-2.0 */
/* The reference's arithmetic on vectors of the compiler (gcc and clang), four elements at a time:
 * NEON on arm64, SSE2 on an x86-64 without AVX2.  Each lane computes all cases and masks choose.
 * Adding a power of two to a float and taking it off its bits again moves the binary point of a
 * subnormal, with the FPU's rounding to nearest even. */
#include <string.h>

#include "cast_kernels.h"

#define LANES 4u

typedef uint16_t half_vec __attribute__((vector_size(LANES * 2)));
typedef uint32_t bits_vec __attribute__((vector_size(LANES * 4)));
typedef float float_vec __attribute__((vector_size(LANES * 4)));

/* A comparison's lanes are all ones or zero.  Not a function: how vectors are handed over depends
 * on the CPU's. */
#define CHOOSE(mask, yes, no) (((yes) & (bits_vec)(mask)) | ((no) & ~(bits_vec)(mask)))

static void cast_vector_f16_to_f32(void *out, const void *in, size_t n)
{
    const char *from = in;
    char *to = out;
    size_t i = 0;

    for (; n - i >= LANES; i += LANES) {
        half_vec h;

        memcpy(&h, from + i * 2, sizeof h);
        bits_vec u = __builtin_convertvector(h, bits_vec), mag = (u & 0x7fff) << 13;
        bits_vec quiet = (bits_vec)(mag > 0x0f800000) & 0x400000;
        float_vec tiny = (float_vec)(mag + (113u << 23)) - 0x1p-14f;
        bits_vec big = mag + (224u << 23) + quiet - (mag & quiet);
        bits_vec r = CHOOSE(mag >= 0x0f800000, big, mag + (112u << 23));

        r = CHOOSE(mag < 0x00800000, (bits_vec)tiny, r) | (u & 0x8000) << 16;
        memcpy(to + i * 4, &r, sizeof r);
    }
    cast_kernels_scalar()->f16_to_f32(to + i * 4, from + i * 2, n - i);
}

static void cast_vector_bf16_to_f32(void *out, const void *in, size_t n)
{
    const char *from = in;
    char *to = out;
    size_t i = 0;

    for (; n - i >= LANES; i += LANES) {
        half_vec h;

        memcpy(&h, from + i * 2, sizeof h);
        bits_vec r = __builtin_convertvector(h, bits_vec) << 16;
        memcpy(to + i * 4, &r, sizeof r);
    }
    cast_kernels_scalar()->bf16_to_f32(to + i * 4, from + i * 2, n - i);
}

static void cast_vector_f32_to_f16(void *out, const void *in, size_t n)
{
    const char *from = in;
    char *to = out;
    size_t i = 0;

    for (; n - i >= LANES; i += LANES) {
        bits_vec u;

        memcpy(&u, from + i * 4, sizeof u);
        bits_vec mag = u & 0x7fffffff, nan = (mag >> 13 & 0x3ff) | 0x7e00;
        bits_vec odd = mag >> 13 & 1, normal = (mag - 0x38000000 + 0xfff + odd) >> 13;
        bits_vec tiny = (bits_vec)((float_vec)mag + 0.5f) - 0x3f000000;
        bits_vec r = CHOOSE(mag < 0x38800000, tiny, normal);

        r = CHOOSE(mag >= 0x47800000, r * 0 + 0x7c00, r);
        r = CHOOSE(mag > 0x7f800000, nan, r) | (u >> 16 & 0x8000);
        half_vec h = __builtin_convertvector(r, half_vec);
        memcpy(to + i * 2, &h, sizeof h);
    }
    cast_kernels_scalar()->f32_to_f16(to + i * 2, from + i * 4, n - i);
}

static void cast_vector_f32_to_bf16(void *out, const void *in, size_t n, uint16_t nan)
{
    const char *from = in;
    char *to = out;
    size_t i = 0;

    for (; n - i >= LANES; i += LANES) {
        bits_vec u;

        memcpy(&u, from + i * 4, sizeof u);
        bits_vec r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
        r = CHOOSE((u & 0x7fffffff) > 0x7f800000, r * 0 + nan, r);
        half_vec h = __builtin_convertvector(r, half_vec);
        memcpy(to + i * 2, &h, sizeof h);
    }
    cast_kernels_scalar()->f32_to_bf16(to + i * 2, from + i * 4, n - i, nan);
}

const struct cast_kernels *cast_kernels_vector(void)
{
    /* The loop of the reference for f64 is one instruction an element already. */
    static const struct cast_kernels kernels = {
        .name = "vector",
        .f64_to_f32 = cast_scalar_f64_to_f32,
        .f16_to_f32 = cast_vector_f16_to_f32,
        .bf16_to_f32 = cast_vector_bf16_to_f32,
        .f32_to_f16 = cast_vector_f32_to_f16,
        .f32_to_bf16 = cast_vector_f32_to_bf16,
        .look_up = cast_scalar_look_up,
    };

    return &kernels;
}
