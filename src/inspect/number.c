/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/inspect/number.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/model/value.h>

/* Decimal digits that distinguish any two values of an f32 or f64: C's FLT_DECIMAL_DIG and DBL_DECIMAL_DIG. */
#define DIGITS_F32 9
#define DIGITS_F64 17

static uint64_t number_bits(const void *p, uint32_t n)
{
    const uint8_t *b = p;
    uint64_t v = 0;

    for (uint32_t i = n; i-- > 0;)
        v = v << 8 | b[i];
    return v;
}

/* The value of a floating-point element with these bits. */
static double number_value(enum zf_dtype t, uint64_t bits)
{
    uint8_t in[8];

    for (int i = 0; i < 8; i++)
        in[i] = (uint8_t)(bits >> (8 * i));
    return zf_value_double(t, in);
}

/* The values that round to an element: those strictly between `low` and `high`. */
struct number_reach {
    double low, high;
};

/* Half-way to the next smaller and to the next larger element.  bits: a finite, non-negative element. */
static struct number_reach number_reach_of(enum zf_dtype t, uint64_t bits)
{
    const double v = number_value(t, bits);
    const double above = number_value(t, bits + 1);
    const double below = bits > 0 ? number_value(t, bits - 1) : t == ZF_DT_F8_E8M0 ? v / 2 : -above;
    const double step = isfinite(above) && above > v ? above - v : v - below;

    return (struct number_reach){.low = v - (v - below) / 2, .high = v + step / 2};
}

/* Does the text read back as v, in its type? */
static bool number_reads_back(const char *text, enum zf_dtype t, double v,
                              const struct number_reach *r)
{
    if (t == ZF_DT_F64)
        return strtod(text, NULL) == v;
    if (t == ZF_DT_F32)
        return (double)strtof(text, NULL) == v;
    const double d = strtod(text, NULL);
    return d > r->low && d < r->high;
}

/* Writes "d.ddde[+-]xx" in the layout of Python's repr: with an exponent below 1e-4 and from 1e16 on. */
static void number_lay(char out[ZF_NUMBER_MAX], const char *text, bool negative)
{
    char digit[32];
    const char *e = strchr(text, 'e');
    const int exp = atoi(e + 1);
    int n = 0, at = 0;

    for (const char *p = text; p < e; p++)
        if (*p != '.')
            digit[n++] = *p;
    if (negative)
        out[at++] = '-';
    if (exp < -4 || exp >= 16) {
        (void)snprintf(out + at, ZF_NUMBER_MAX - (size_t)at, "%.1s%s%.*se%c%02d", digit,
                       n > 1 ? "." : "", n - 1, digit + 1, exp < 0 ? '-' : '+', abs(exp));
        return;
    }
    const int before = exp < 0 ? 1 : exp + 1; /* digits before the point */
    for (int i = 0; i < before; i++)
        out[at++] = exp < 0 || i >= n ? '0' : digit[i];
    out[at++] = '.';
    for (int i = exp + 1; i < 0; i++)
        out[at++] = '0';
    for (int i = exp < 0 ? 0 : before; i < n; i++)
        out[at++] = digit[i];
    if (n <= before && exp >= 0)
        out[at++] = '0';
    out[at] = '\0';
}

/* Writes an element of the floating type t, given its bits. */
static void number_float(char out[ZF_NUMBER_MAX], enum zf_dtype t, uint64_t bits)
{
    const double v = number_value(t, bits), mag = fabs(v);
    struct number_reach reach = {0};
    char text[40];

    if (!isfinite(v)) {
        (void)snprintf(out, ZF_NUMBER_MAX, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    if (v == 0) {
        (void)snprintf(out, ZF_NUMBER_MAX, signbit(v) ? "-0.0" : "0.0");
        return;
    }
    if (t != ZF_DT_F64 && t != ZF_DT_F32) {
        const uint64_t sign = t == ZF_DT_F8_E8M0 ? 0 : 1ull << (8 * zf_dtype_info(t)->bytes - 1);

        reach = number_reach_of(t, bits & ~sign);
    }
    for (int n = 1; n <= (t == ZF_DT_F64 ? DIGITS_F64 : DIGITS_F32); n++) {
        (void)snprintf(text, sizeof text, "%.*e", n - 1, mag);
        if (number_reads_back(text, t, mag, &reach))
            break;
    }
    number_lay(out, text, v < 0);
}

void zf_number_double(char out[ZF_NUMBER_MAX], double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    number_float(out, ZF_DT_F64, bits);
}

static void number_complex(char out[ZF_NUMBER_MAX], enum zf_dtype t, const void *p)
{
    const enum zf_dtype half = zf_value_half(t);
    const uint32_t n = zf_dtype_info(half)->bytes;
    char im[ZF_NUMBER_MAX], re[ZF_NUMBER_MAX];

    number_float(re, half, number_bits(p, n));
    number_float(im, half, number_bits((const char *)p + n, n));
    (void)snprintf(out, ZF_NUMBER_MAX, "(%.28s%s%.28sj)", re, im[0] == '-' ? "" : "+", im);
}

void zf_number_text(char out[ZF_NUMBER_MAX], enum zf_dtype t, const void *p)
{
    const struct zf_dtype_info *info = zf_dtype_info(t);

    if (info->kind == 'f')
        number_float(out, t, number_bits(p, info->bytes));
    else if (info->kind == 'c')
        number_complex(out, t, p);
    else if (info->kind == 'b')
        (void)snprintf(out, ZF_NUMBER_MAX, *(const uint8_t *)p ? "true" : "false");
    else if (!zf_value_is_int(t))
        zf_number_hex(out, t, p);
    else if (zf_value_is_unsigned(t))
        (void)snprintf(out, ZF_NUMBER_MAX, "%" PRIu64, (uint64_t)zf_value_int(t, p));
    else
        (void)snprintf(out, ZF_NUMBER_MAX, "%" PRId64, zf_value_int(t, p));
}

void zf_number_json(char out[ZF_NUMBER_MAX], enum zf_dtype t, const void *p)
{
    const char kind = zf_dtype_info(t)->kind;
    char text[ZF_NUMBER_MAX];

    zf_number_text(text, t, p);
    const bool number = zf_value_is_int(t) || (kind == 'f' && !strpbrk(text, "in"));
    (void)snprintf(out, ZF_NUMBER_MAX, number ? "%.60s" : "\"%.60s\"", text);
}

void zf_number_hex(char out[ZF_NUMBER_MAX], enum zf_dtype t, const void *p)
{
    const uint32_t n = zf_dtype_info(t)->bytes;
    const uint8_t *b = p;

    for (uint32_t i = 0; i < n; i++)
        (void)snprintf(out + (size_t)2 * i, 3, "%02x", b[n - 1 - i]);
}
