/* SPDX-License-Identifier: Apache-2.0 */
/* All casts.  Each goes through f32, as in torch, two vectors of LANES elements at a time, without
 * branches.  This file is included once per vector width; where the CPU has instructions for them,
 * the including file defines
 *   WIDE             attribute of the functions: the instructions that they may use
 *   BYTES_TO_16(in)  LANES bytes, each in 16 bits
 *   TO_32(h)         16 bits in 32
 *   F16_TO_F32(h), F32_TO_F16(u)
 *   UPPER(a, b)      the upper halves of the elements of a, then those of b
 *   CHOOSE(mask, yes, no)
 *   LEAVE()          clears the upper parts of the registers, which would slow down SSE code that
 *                    runs next; gcc 12 leaves that out of some functions */
#include "cast_kernels.h"

#include <string.h>

#ifndef LANES
#define LANES 4
#define WIDE
#define LEAVE() (void)0
#endif
#define STEP (2 * LANES)
#define INLINE WIDE __attribute__((always_inline)) static inline

typedef uint16_t halves __attribute__((vector_size(LANES * 2)));
typedef int16_t shorts __attribute__((vector_size(LANES * 2)));
typedef uint16_t pair __attribute__((vector_size(LANES * 4)));
typedef uint32_t words __attribute__((vector_size(LANES * 4)));
typedef int32_t ints __attribute__((vector_size(LANES * 4)));
typedef float floats __attribute__((vector_size(LANES * 4)));
typedef double doubles __attribute__((vector_size(LANES * 8)));

/* A mask, the result of a comparison, has elements of all ones or zero. */
#define IS_NAN(u) ((floats)(u) != (floats)(u))
#ifndef CHOOSE
#define CHOOSE(mask, yes, no) (((yes) & (words)(mask)) | ((no) & ~(words)(mask)))
#endif
/* The same value in each element. */
#define ALL(value) ((words){0} + (value))

#ifndef UPPER
#define BYTES_TO_16(in) cast_bytes_to_16(in)
#define TO_32(h) __builtin_convertvector(h, words)
#define F16_TO_F32(h) cast_f16_to_f32(h)
#define F32_TO_F16(u) cast_f32_to_f16(u)
#define UPPER(a, b) cast_upper(a, b)

INLINE halves cast_bytes_to_16(const char *in)
{
    halves h = {0};

    for (int i = 0; i < LANES; i++)
        h[i] = (uint8_t)in[i];
    return h;
}

/* Adding a power of two to a float and subtracting it again moves the binary point of a subnormal;
 * the FPU rounds to nearest even. */
INLINE words cast_f16_to_f32(halves h)
{
    words u = TO_32(h), mag = (u & 0x7fff) << 13;
    words quiet = (words)((ints)mag > 0x0f800000) & 0x400000;
    words tiny = (words)((floats)(mag + (113u << 23)) - 0x1p-14f);
    words big = (mag + (224u << 23)) | quiet;
    words r = CHOOSE((ints)mag >= 0x0f800000, big, mag + (112u << 23));

    return CHOOSE((ints)mag < 0x00800000, tiny, r) | (u & 0x8000) << 16;
}

INLINE halves cast_f32_to_f16(words u)
{
    words mag = u & 0x7fffffff, nan = (mag >> 13 & 0x3ff) | 0x7e00;
    words odd = mag >> 13 & 1, normal = (mag - 0x38000000 + 0xfff + odd) >> 13;
    words tiny = (words)((floats)mag + 0.5f) - 0x3f000000;
    words r = CHOOSE((ints)mag < 0x38800000, tiny, normal);

    r = CHOOSE((ints)mag >= 0x47800000, ALL(0x7c00), r);
    r = CHOOSE((ints)mag > 0x7f800000, nan, r) | (u >> 16 & 0x8000);
    return __builtin_convertvector(r, halves);
}

INLINE pair cast_upper(words a, words b)
{
    halves h[2] = {__builtin_convertvector(a >> 16, halves),
                   __builtin_convertvector(b >> 16, halves)};
    pair p;

    memcpy(&p, h, sizeof p);
    return p;
}
#endif

/* x: the bits of an 8-bit type, each in the upper half of 16 bits.  If `to` is bf16, a NaN already has
 * the bits that torch's rounding to bf16 gives it.  Source of the layouts: c10/util/Float8_*.h. */
INLINE words cast_load_8(halves x, enum zf_dtype from, enum zf_dtype to)
{
    const words nan = ALL(to == ZF_DT_BF16 ? 0x7fc00000 : 0x7f800001);
    /* The exponent of e4m3 as the lower four bits of an f16's: too small by a constant. */
    words e4m3 = F16_TO_F32((halves)((shorts)x >> 1) & 0xbfff);
    words u = TO_32(x >> 8), r;

    switch (from) {
    case ZF_DT_F8_E4M3:
        r = (words)((floats)e4m3 * 0x1p8f);
        u = (words)((r & 0x7fffffff) == 0x43f00000); /* 480 is NaN */
        return to == ZF_DT_BF16 ? CHOOSE(u, nan, r) : r | (u & 0x7ff00000);
    case ZF_DT_F8_E4M3FNUZ:
        r = (words)((floats)e4m3 * 0x1p7f);
        return CHOOSE(r == 0x80000000, nan, r);
    case ZF_DT_F8_E5M2: /* the upper half of an f16 */
        r = F16_TO_F32(x);
        return to == ZF_DT_BF16 ? CHOOSE(IS_NAN(r), nan, r) : r;
    case ZF_DT_F8_E5M2FNUZ:
        r = (words)(__builtin_convertvector((ints)u & 0x7f, floats) * 0x1p-17f); /* subnormal */
        r = CHOOSE((u & 0x7c) == 0, r, ((u & 0x7f) << 21) + (111u << 23)) | (u & 0x80) << 24;
        return CHOOSE(u == 0x80, nan, r);
    default: /* F8_E8M0 */
        r = CHOOSE(u == 0, ALL(0x00400000), u << 23);
        return CHOOSE(u == 0xff, nan, r);
    }
}

/* The bits of f32 of the k-th vector of elements. */
INLINE words cast_load(const char *in, unsigned k, enum zf_dtype from, enum zf_dtype to)
{
    halves h;
    words u;
    doubles d;

    switch (from) {
    case ZF_DT_F64:
        memcpy(&d, in + k * sizeof d, sizeof d);
        return (words) __builtin_convertvector(d, floats);
    case ZF_DT_F32:
        memcpy(&u, in + k * sizeof u, sizeof u);
        return u;
    case ZF_DT_F16:
        memcpy(&h, in + k * sizeof h, sizeof h);
        return F16_TO_F32(h);
    case ZF_DT_BF16:
        memcpy(&h, in + k * sizeof h, sizeof h);
        return TO_32(h) << 16;
    default:
        return cast_load_8(BYTES_TO_16(in + k * LANES) << 8, from, to);
    }
}

/* Rounded to bf16, in the upper half of each element.  torch's vector code writes all ones for a
 * NaN, its scalar code the canonical quiet NaN, and it has vector code for f32 and f64 only. */
INLINE words cast_round(words u, enum zf_dtype from)
{
    const bool ones = from == ZF_DT_F64 || from == ZF_DT_F32;
    words r = u + 0x7fff + (u >> 16 & 1), nan = (words)IS_NAN(u);

    return ones ? r | nan : CHOOSE(nan, ALL(0x7fc00000), r);
}

/* Casts STEP elements. */
INLINE void cast_step(char *out, enum zf_dtype to, const char *in, enum zf_dtype from)
{
    words a, b;

    if (to == ZF_DT_BF16 && from >= ZF_DT_F8_E4M3) {
        /* Exact.  Even and odd elements are separated: two results then share 32 bits. */
        halves x;

        memcpy(&x, in, sizeof x);
        a = cast_load_8(x << 8, from, to);
        b = cast_load_8(x & 0xff00, from, to);
        a = a >> 16 | (b & 0xffff0000);
        memcpy(out, &a, sizeof a);
        return;
    }
    a = cast_load(in, 0, from, to);
    b = cast_load(in, 1, from, to);
    if (to == ZF_DT_F32) {
        memcpy(out, &a, sizeof a);
        memcpy(out + sizeof a, &b, sizeof b);
    } else if (to == ZF_DT_F16) {
        halves first = F32_TO_F16(a), second = F32_TO_F16(b);

        memcpy(out, &first, sizeof first);
        memcpy(out + sizeof first, &second, sizeof second);
    } else {
        pair p = UPPER(cast_round(a, from), cast_round(b, from));

        memcpy(out, &p, sizeof p);
    }
}

/* Casts whole steps; returns the number of elements done.  Types are constants within each loop. */
WIDE static size_t cast_steps(char *out, enum zf_dtype to, const char *in, enum zf_dtype from,
                              size_t n)
{
    const size_t in_step = zf_dtype_info(from)->bytes * STEP;
    const size_t out_step = zf_dtype_info(to)->bytes * STEP;
    const size_t steps = n / STEP;

#define TO(type, type_out)                                                                         \
    for (size_t i = 0; to == ZF_DT_##type_out && i < steps; i++)                                   \
        cast_step(out + i * out_step, ZF_DT_##type_out, in + i * in_step, ZF_DT_##type);
#define FROM(type)                                                                                 \
    case ZF_DT_##type:                                                                             \
        TO(type, F32)                                                                              \
        TO(type, F16)                                                                              \
        TO(type, BF16)                                                                             \
        break;

    switch (from) {
        FROM(F64)
        FROM(F32)
        FROM(F16)
        FROM(BF16)
        FROM(F8_E4M3)
        FROM(F8_E5M2)
        FROM(F8_E4M3FNUZ)
        FROM(F8_E5M2FNUZ)
        FROM(F8_E8M0)
    default:
        break;
    }
    LEAVE();
    return steps * STEP;
}

static void cast_lanes(void *out, enum zf_dtype to, const void *in, enum zf_dtype from, size_t n)
{
    const size_t in_size = zf_dtype_info(from)->bytes, out_size = zf_dtype_info(to)->bytes;
    const size_t done = cast_steps(out, to, in, from, n);
    char rest[STEP * sizeof(double)] = {0}, cast[STEP * sizeof(float)];

    if (done < n) {
        memcpy(rest, (const char *)in + done * in_size, (n - done) * in_size);
        (void)cast_steps(cast, to, rest, from, STEP);
        memcpy((char *)out + done * out_size, cast, (n - done) * out_size);
    }
}
