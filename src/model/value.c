/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/model/value.h>

#include <string.h>

#include <zf/model/cast.h>

bool zf_value_is_int(enum zf_dtype t)
{
    const char kind = zf_dtype_info(t)->kind;

    return kind == 'i' || kind == 'u' || kind == 'b' || t == ZF_DT_QI8 || t == ZF_DT_QU8 ||
           t == ZF_DT_QI32;
}

bool zf_value_is_unsigned(enum zf_dtype t)
{
    const char kind = zf_dtype_info(t)->kind;

    return kind == 'u' || kind == 'b' || t == ZF_DT_QU8;
}

bool zf_value_is_number(enum zf_dtype t)
{
    return zf_dtype_info(t)->kind == 'f' || zf_value_is_int(t);
}

int64_t zf_value_int(enum zf_dtype t, const void *p)
{
    const uint32_t n = zf_dtype_info(t)->bytes, above = 64 - 8 * n;
    const uint8_t *byte = p;
    uint64_t v = 0;

    for (uint32_t i = n; i-- > 0;)
        v = v << 8 | byte[i];
    return zf_value_is_unsigned(t) ? (int64_t)v : (int64_t)(v << above) >> above;
}

double zf_value_double(enum zf_dtype t, const void *p)
{
    double d;
    float f;

    if (t == ZF_DT_F64) {
        memcpy(&d, p, sizeof d);
        return d;
    }
    if (zf_dtype_info(t)->kind == 'f') {
        zf_cast(&f, ZF_DT_F32, p, t, 1);
        return (double)f;
    }
    const int64_t v = zf_value_int(t, p);
    return zf_value_is_unsigned(t) ? (double)(uint64_t)v : (double)v;
}

enum zf_dtype zf_value_half(enum zf_dtype t)
{
    return t == ZF_DT_C32 ? ZF_DT_F16 : t == ZF_DT_C64 ? ZF_DT_F32 : ZF_DT_F64;
}
