/* SPDX-License-Identifier: Apache-2.0 */
/* fill_value: what elements are that no chunk holds.  A number, true or false; "NaN" and the
 * infinities as words; of a complex type two of those; of types that JSON has nothing for
 * (|V2 as bfloat16) also the bytes in base64. */
#include "inside.h"

#include <endian.h>
#include <math.h>
#include <string.h>

static bool fill_bad(const struct zf_zarr *z, struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "fill_value is no value of type %s",
                   zf_dtype_info(z->dtype)->torch);
}

/* x rounded to nearest even as a float of `mant` (at most 23) stored bits of mantissa and `exp` of
 * exponent. */
static uint64_t fill_float_bits(double x, int mant, int exp)
{
    uint64_t sign = signbit(x) ? 1ull << (mant + exp) : 0;
    uint64_t inf = ((1ull << exp) - 1) << mant;
    int bias = (1 << (exp - 1)) - 1, e;

    x = fabs(x);
    if (isnan(x)) {
        return inf | 1ull << (mant - 1);
    }
    if (isinf(x) || x == 0) {
        return sign | (x == 0 ? 0 : inf);
    }
    (void)frexp(x, &e); /* x in [2^(e-1), 2^e) */
    e = e - 1 < 1 - bias ? 1 - bias : e - 1;
    /* The mantissa with its leading 1, which adds itself to the exponent; so does a carry.  Sums
     * with 2^52 have no fraction. */
    volatile double m = ldexp(x, mant - e) + 0x1p52;
    uint64_t bits = (uint64_t)(m - 0x1p52) + ((uint64_t)(e + bias - 1) << mant);
    return sign | (bits < inf ? bits : inf);
}

static bool fill_word(const char *word, double *out)
{
    static const struct {
        const char *word;
        double value;
    } known[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(word, known[i].word) == 0) {
            *out = known[i].value;
            return true;
        }
    }
    return false;
}

static bool fill_real(const json_t *v, double *out)
{
    if (json_is_string(v)) {
        return fill_word(json_string_value(v), out);
    }
    *out = json_number_value(v);
    return json_is_number(v);
}

static void fill_put(uint8_t *to, uint64_t bits, uint32_t n)
{
    bits = htole64(bits);
    memcpy(to, &bits, n);
}

/* A float of n bytes. */
static bool fill_float(const json_t *v, enum zf_dtype t, uint32_t n, uint8_t *to)
{
    double x;

    if (!fill_real(v, &x)) {
        return false;
    }
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (n < 8) {
        bits = t == ZF_DT_BF16 ? fill_float_bits(x, 7, 8)
               : n == 2        ? fill_float_bits(x, 10, 5)
                               : fill_float_bits(x, 23, 8);
    }
    fill_put(to, bits, n);
    return true;
}

/* An integer of n bytes; a JSON number with a point counts when it is whole. */
static bool fill_int(const json_t *v, char kind, uint32_t n, uint8_t *to)
{
    double x = json_is_real(v) ? json_real_value(v) : 0;
    int64_t i = json_is_integer(v) ? (int64_t)json_integer_value(v) : 0;

    if (json_is_real(v)) {
        if (!(fabs(x) < 9007199254740992.0) || x != (double)(int64_t)x) {
            return false;
        }
        i = (int64_t)x;
    } else if (!json_is_integer(v)) {
        return false;
    }
    uint32_t bits = n * 8;
    if (kind == 'u' ? i < 0 || (bits < 64 && (uint64_t)i >> bits != 0)
                    : bits < 64 && (i < -(1ll << (bits - 1)) || i >= 1ll << (bits - 1))) {
        return false;
    }
    fill_put(to, (uint64_t)i, n);
    return true;
}

static int fill_sextet(char c)
{
    static const char abc[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(abc, c) : NULL;

    return at ? (int)(at - abc) : -1;
}

/* Exactly n (<= 16) bytes in base64, with padding. */
static bool fill_base64(const char *text, uint8_t *to, uint32_t n)
{
    uint32_t got = 0, quads = (n + 2) / 3;

    if (strlen(text) != (size_t)quads * 4) {
        return false;
    }
    for (uint32_t q = 0; q < quads; q++) {
        uint32_t word = 0, keep = n - got < 3 ? n - got : 3;

        for (uint32_t i = 0; i < 4; i++) {
            char c = text[4 * q + i];
            int s = i > keep ? (c == '=' ? 0 : -1) : fill_sextet(c);

            if (s < 0) {
                return false;
            }
            word = word << 6 | (uint32_t)s;
        }
        for (uint32_t i = 0; i < keep; i++) {
            to[got++] = (uint8_t)(word >> (16 - 8 * i));
        }
    }
    return true;
}

static bool fill_complex(const json_t *v, uint32_t half, uint8_t *to)
{
    return json_is_array(v) && json_array_size(v) == 2 &&
           fill_float(json_array_get(v, 0), ZF_DT_F64, half, to) &&
           fill_float(json_array_get(v, 1), ZF_DT_F64, half, to + half);
}

bool zarr_fill(const json_t *value, struct zf_zarr *z, struct zf_err *err)
{
    const struct zf_dtype_info *t = zf_dtype_info(z->dtype);
    bool ok = false;

    z->has_fill = true;
    if (t->kind == 'b') {
        /* zarr-python writes false; older ones wrote 0. */
        ok = json_is_boolean(value) ||
             (json_is_integer(value) && json_integer_value(value) >> 1 == 0);
        z->fill[0] = json_is_true(value) || json_integer_value(value) == 1;
    } else if (t->kind == 'i' || t->kind == 'u') {
        ok = fill_int(value, t->kind, t->bytes, z->fill);
    } else if (t->kind == 'c') {
        ok = fill_complex(value, t->bytes / 2, z->fill);
    } else if (t->kind == 'f' && t->bytes > 1) {
        ok = fill_float(value, z->dtype, t->bytes, z->fill);
        if (!ok && z->dtype == ZF_DT_BF16 && json_is_string(value)) {
            ok = fill_base64(json_string_value(value), z->fill, t->bytes);
        }
    } else {
        /* Types of one byte that JSON has no words for: nothing but zero is certain. */
        ok = json_is_number(value) && json_number_value(value) == 0;
    }
    return ok || fill_bad(z, err);
}
