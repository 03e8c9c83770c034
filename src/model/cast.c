/* SPDX-License-Identifier: Apache-2.0 */
/* Every cast goes through f32, as torch's do. */
#include "cast_kernels.h"
#include "cast_tiny.h"

#include <string.h>

/* Elements that are turned to f32 on the way to a 16-bit type: small enough for the
 * first-level cache. */
#define STEP 1024

bool zf_can_cast(enum zf_dtype from, enum zf_dtype to)
{
    return zf_dtype_info(from)->kind == 'f' &&
           (to == ZF_DT_F32 || to == ZF_DT_F16 || to == ZF_DT_BF16);
}

/* ---- the two halves of a cast ------------------------------------------------------------- */

static void cast_to_f32(const struct cast_kernels *k, void *out, const void *in, enum zf_dtype from,
                        size_t n)
{
    if (from == ZF_DT_F64) {
        k->f64_to_f32(out, in, n);
    } else if (from == ZF_DT_F16) {
        k->f16_to_f32(out, in, n);
    } else {
        k->bf16_to_f32(out, in, n);
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

static void cast_by_way_of_f32(const struct cast_kernels *k, void *out, enum zf_dtype to,
                               const void *in, enum zf_dtype from, size_t n)
{
    size_t in_size = zf_dtype_info(from)->bytes, out_size = zf_dtype_info(to)->bytes;
    float step[STEP];

    for (size_t i = 0; i < n; i += STEP) {
        size_t m = n - i < STEP ? n - i : STEP;

        cast_to_f32(k, step, (const char *)in + i * in_size, from, m);
        cast_from_f32(k, (char *)out + i * out_size, to, step, from, m);
    }
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
    } else if (in_size == 1) {
        k->look_up(out, in, n, cast_tiny_of(from, to));
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
