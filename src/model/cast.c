/* SPDX-License-Identifier: Apache-2.0 */
/* Every cast goes through f32, as torch's do. */
#include "cast_kernels.h"

#include <string.h>

/* Elements that are turned to f32 on the way to a 16-bit type: small enough for the
 * first-level cache. */
#define STEP 1024

bool zf_can_cast(enum zf_dtype from, enum zf_dtype to)
{
    return zf_dtype_info(from)->kind == 'f' &&
           (to == ZF_DT_F32 || to == ZF_DT_F16 || to == ZF_DT_BF16);
}

/* ---- 8 bits ------------------------------------------------------------------------------- */

/* The layout of an 8-bit type; source: c10/util/Float8_*.h. */
struct tiny {
    int frac_bits, bias;
};

static float cast_power_of_2(int e)
{
    uint32_t bits = (uint32_t)(e + 127) << 23;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t cast_tiny_to_bits(struct tiny t, uint8_t x)
{
    int frac = x & ((1 << t.frac_bits) - 1), exp = (x & 0x7f) >> t.frac_bits;
    uint32_t bits;
    float f;

    if (exp == 0) {
        f = (float)frac * cast_power_of_2(1 - t.bias - t.frac_bits);
    } else {
        f = (float)(frac | 1 << t.frac_bits) * cast_power_of_2(exp - t.bias - t.frac_bits);
    }
    memcpy(&bits, &f, sizeof bits);
    return bits | (uint32_t)(x & 0x80) << 24;
}

static uint32_t cast_f8_to_bits(enum zf_dtype from, uint8_t x)
{
    uint16_t half = (uint16_t)(x << 8);
    uint32_t bits;

    switch (from) {
    case ZF_DT_F8_E4M3:
        return (x & 0x7f) == 0x7f ? (uint32_t)(x & 0x80) << 24 | 0x7ff00000
                                  : cast_tiny_to_bits((struct tiny){3, 7}, x);
    case ZF_DT_F8_E4M3FNUZ:
        return x == 0x80 ? 0x7f800001 : cast_tiny_to_bits((struct tiny){3, 8}, x);
    case ZF_DT_F8_E5M2FNUZ:
        return x == 0x80 ? 0x7f800001 : cast_tiny_to_bits((struct tiny){2, 16}, x);
    case ZF_DT_F8_E8M0:
        return x == 0xff ? 0x7f800001 : x == 0 ? 0x00400000 : (uint32_t)x << 23;
    default:
        /* e5m2 is the upper half of an f16. */
        cast_kernels_scalar()->f16_to_f32(&bits, &half, 1);
        return bits;
    }
}

/* ---- the two halves of a cast ------------------------------------------------------------- */

static void cast_to_f32(const struct cast_kernels *k, void *out, const void *in, enum zf_dtype from,
                        size_t n)
{
    switch (from) {
    case ZF_DT_F64:
        k->f64_to_f32(out, in, n);
        return;
    case ZF_DT_F16:
        k->f16_to_f32(out, in, n);
        return;
    case ZF_DT_BF16:
        k->bf16_to_f32(out, in, n);
        return;
    default:
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = cast_f8_to_bits(from, ((const uint8_t *)in)[i]);

            memcpy((char *)out + i * sizeof bits, &bits, sizeof bits);
        }
    }
}

static void cast_from_f32(const struct cast_kernels *k, void *out, enum zf_dtype to, const void *in,
                          enum zf_dtype from, size_t n)
{
    if (to == ZF_DT_F16) {
        k->f32_to_f16(out, in, n);
        return;
    }
    /* torch's vector code writes all ones for a NaN, its scalar code the canonical quiet NaN, and
     * it has vector code for these two source types only. */
    k->f32_to_bf16(out, in, n, from == ZF_DT_F32 || from == ZF_DT_F64 ? 0xffff : NAN_OF_SMALL);
}

static void cast_by_way_of_f32(const struct cast_kernels *k, void *out, enum zf_dtype to, const void *in,
                               enum zf_dtype from, size_t n)
{
    size_t in_size = zf_dtype_info(from)->bytes, out_size = zf_dtype_info(to)->bytes;
    float step[STEP];

    for (size_t i = 0; i < n; i += STEP) {
        size_t m = n - i < STEP ? n - i : STEP;

        cast_to_f32(k, step, (const char *)in + i * in_size, from, m);
        cast_from_f32(k, (char *)out + i * out_size, to, step, from, m);
    }
}

/* One cast by way of a table of all 256, which costs as much as a few hundred of them. */
static void cast_by_table(const struct cast_kernels *k, void *out, enum zf_dtype to, const void *in,
                          enum zf_dtype from, size_t n)
{
    uint8_t all[256];
    uint32_t table[256];

    for (unsigned x = 0; x < 256; x++) {
        all[x] = (uint8_t)x;
    }
    if (to == ZF_DT_F32) {
        cast_to_f32(k, table, all, from, 256);
    } else {
        cast_by_way_of_f32(k, table, to, all, from, 256);
    }
    k->look_up(out, in, n, table, zf_dtype_info(to)->bytes);
}

void cast_kernels_run(const struct cast_kernels *k, void *out, enum zf_dtype to, const void *in,
                      enum zf_dtype from, size_t n)
{
    size_t in_size = zf_dtype_info(from)->bytes;

    if (n == 0) {
        return;
    }
    if (from == to) {
        memcpy(out, in, n * in_size);
    } else if (in_size == 1 && n >= 512) {
        cast_by_table(k, out, to, in, from, n);
    } else if (to == ZF_DT_F32) {
        cast_to_f32(k, out, in, from, n);
    } else if (from == ZF_DT_F32) {
        cast_from_f32(k, out, to, in, from, n);
    } else if (from == ZF_DT_F16 && k->f16_to_bf16) {
        k->f16_to_bf16(out, in, n);
    } else if (from == ZF_DT_BF16 && k->bf16_to_f16) {
        k->bf16_to_f16(out, in, n);
    } else {
        cast_by_way_of_f32(k, out, to, in, from, n);
    }
}

const struct cast_kernels *cast_kernels_best(void)
{
    const struct cast_kernels *k = cast_kernels_avx512();

    k = k ? k : cast_kernels_avx2();
    return k ? k : cast_kernels_vector();
}

void zf_cast(void *out, enum zf_dtype to, const void *in, enum zf_dtype from, size_t n)
{
    cast_kernels_run(cast_kernels_best(), out, to, in, from, n);
}
