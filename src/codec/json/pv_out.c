/* SPDX-License-Identifier: Apache-2.0 */
#include "pv_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>

#define BYTES_SHOWN 256u
/* Like Python, does not print longer ints, because the conversion takes quadratic time. */
#define BIGINT_BYTES 1785u

void pvjson_too_long(struct zf_pvjson *o)
{
    if (!o->failed) {
        o->failed = true;
        (void)zf_fail_limit(o->err, ZF_LIMIT_text_bytes, ZF_OFF_NONE,
                            "the text is longer than the limit text_bytes allows (%llu)",
                            (unsigned long long)o->limit);
    }
}

void zf_pvjson_raw(struct zf_pvjson *o, const char *json)
{
    pvjson_put(o, json, strlen(json));
}

void pvjson_fmt(struct zf_pvjson *o, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    zf_pvjson_raw(o, text);
}

/* The number of bytes from p on that need no escape. */
static uint64_t pv_out_plain(const uint8_t *p, uint64_t n)
{
    uint64_t i = 0;

    while (i < n && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\' && p[i] != 0x7f && p[i] != 0xed)
        i++;
    return i;
}

void pvjson_chars(struct zf_pvjson *o, const char *text, uint64_t n)
{
    static const char named[] = "\b\f\n\r\t\"\\", letter[] = "bfnrt\"\\";
    const uint8_t *p = (const uint8_t *)text;

    for (uint64_t i = 0; i < n && !o->failed;) {
        uint64_t run = pv_out_plain(p + i, n - i);
        pvjson_put(o, text + i, run);
        i += run;
        if (i == n)
            break;
        const char *at = p[i] ? strchr(named, p[i]) : NULL;
        if (at) {
            pvjson_fmt(o, "\\%c", letter[at - named]);
        } else if (p[i] == 0xed && n - i >= 3 && p[i + 1] >= 0xa0) {
            /* Half a surrogate pair is not a character; readers refuse it as \u, so the
             * backslash is escaped. */
            pvjson_fmt(o, "\\\\u%04x", 0xd000 | (p[i + 1] & 0x3f) << 6 | (p[i + 2] & 0x3f));
            i += 2;
        } else if (p[i] == 0xed) {
            pvjson_put(o, text + i, 1);
        } else {
            pvjson_fmt(o, "\\u%04x", p[i]);
        }
        i++;
    }
}

void zf_pvjson_str(struct zf_pvjson *o, const char *text, uint64_t n)
{
    zf_pvjson_raw(o, "\"");
    pvjson_chars(o, text, n);
    zf_pvjson_raw(o, "\"");
}

static void pv_out_hex(struct zf_pvjson *o, const char *p, uint64_t n)
{
    for (uint64_t i = 0; i < n && i < BYTES_SHOWN; i++)
        pvjson_fmt(o, "%02x", (unsigned char)p[i]);
    if (n > BYTES_SHOWN)
        zf_pvjson_raw(o, "...");
}

static void pv_out_number(struct zf_pvjson *o, double d)
{
    char text[40];

    /* The shortest text that reads back as the same number. */
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    zf_pvjson_raw(o, text);
    if (isfinite(d) && !strpbrk(text, ".e"))
        zf_pvjson_raw(o, ".0");
}

void pvjson_number(struct zf_pvjson *o, double d)
{
    if (isfinite(d))
        pv_out_number(o, d);
    else
        pvjson_fmt(o, "{\"__float__\": \"%s\"}", isnan(d) ? "nan" : d > 0 ? "inf" : "-inf");
}

/* Converts two's complement bytes to the absolute value in 32-bit limbs, least significant first. */
static size_t pv_out_limbs(const uint8_t *p, uint64_t n, uint32_t *limb)
{
    bool negative = p[n - 1] & 0x80;
    unsigned carry = negative;

    for (uint64_t i = 0; i < n; i++) {
        unsigned b = (unsigned)(negative ? (uint8_t)~p[i] : p[i]) + carry;
        limb[i / 4] |= (uint32_t)(b & 0xff) << (8 * (i % 4));
        carry = b >> 8;
    }
    return (n + 3) / 4;
}

static void pv_out_bigint(struct zf_pvjson *o, const struct zf_pv *v)
{
    uint32_t limb[BIGINT_BYTES / 4 + 1] = {0}, part[BIGINT_BYTES / 3 + 2];
    uint64_t n;
    const uint8_t *p = (const uint8_t *)zf_pv_text(v, &n);
    size_t used = pv_out_limbs(p, n, limb), parts = 0;

    while (used) {
        uint64_t rest = 0;
        for (size_t i = used; i-- > 0;) {
            rest = rest << 32 | limb[i];
            limb[i] = (uint32_t)(rest / 1000000000);
            rest %= 1000000000;
        }
        part[parts++] = (uint32_t)rest;
        while (used && limb[used - 1] == 0)
            used--;
    }
    pvjson_fmt(o, "%s%" PRIu32, p[n - 1] & 0x80 ? "-" : "", part[--parts]);
    while (parts-- > 0)
        pvjson_fmt(o, "%09" PRIu32, part[parts]);
}

void pvjson_bytes(struct zf_pvjson *o, const char *name, const char *p, uint64_t n)
{
    pvjson_fmt(o, "{\"%s\": \"", name);
    pv_out_hex(o, p, n);
    pvjson_fmt(o, "\", \"length\": %" PRIu64 "}", n);
}

static void pv_out_global(struct zf_pvjson *o, const struct zf_pv *v)
{
    /* torch.float32, torch.per_tensor_affine are values; torch.FloatStorage is a class. */
    const char *module = zf_pv_module(v), *name = zf_pv_name(v);
    bool value = strcmp(module, "torch") == 0 && name[0] >= 'a' && name[0] <= 'z';

    zf_pvjson_raw(o, value ? "\"" : "{\"__global__\": \"");
    pvjson_key(o, v);
    zf_pvjson_raw(o, value ? "\"" : "\"}");
}

static void pv_out_put_int(struct zf_pvjson *o, int64_t i)
{
    char text[24] = "-";
    unsigned n = i < 0; /* the sign */

    n += zf_num_digits(text + n, i < 0 ? 0 - (uint64_t)i : (uint64_t)i);
    pvjson_put(o, text, n);
}

bool pvjson_scalar(struct zf_pvjson *o, const struct zf_pv *v)
{
    int64_t i = 0;
    double f = 0;
    bool b = false;
    uint64_t n;
    const char *p = zf_pv_text(v, &n);

    switch (zf_pv_kind(v)) {
    case ZF_PV_NONE:
        pvjson_put(o, "null", 4);
        return true;
    case ZF_PV_BOOL:
        (void)zf_pv_bool(v, &b);
        zf_pvjson_raw(o, b ? "true" : "false");
        return true;
    case ZF_PV_INT:
        (void)zf_pv_int(v, &i);
        pv_out_put_int(o, i);
        return true;
    case ZF_PV_FLOAT:
        (void)zf_pv_float(v, &f);
        pvjson_number(o, f);
        return true;
    case ZF_PV_BIGINT:
        if (n <= BIGINT_BYTES)
            pv_out_bigint(o, v);
        else
            pvjson_bytes(o, "__int__", p, n);
        return true;
    case ZF_PV_STR:
        zf_pvjson_str(o, p, n);
        return true;
    case ZF_PV_BYTES:
        pvjson_bytes(o, "__bytes__", p, n);
        return true;
    case ZF_PV_GLOBAL:
        pv_out_global(o, v);
        return true;
    case ZF_PV_EXT:
        zf_pvjson_raw(o, "{\"__opaque__\": \"extension\"}");
        return true;
    default:
        return false;
    }
}

/* Writes a key that is neither a str nor a tuple. */
static void pv_out_simple_key(struct zf_pvjson *o, const struct zf_pv *v)
{
    uint64_t n;
    const char *p = zf_pv_text(v, &n);
    double f = 0;
    bool b = false;

    switch (zf_pv_kind(v)) {
    case ZF_PV_STR:
        pvjson_chars(o, p, n);
        break;
    case ZF_PV_NONE:
        zf_pvjson_raw(o, "None");
        break;
    case ZF_PV_BOOL:
        (void)zf_pv_bool(v, &b);
        zf_pvjson_raw(o, b ? "True" : "False");
        break;
    case ZF_PV_FLOAT:
        (void)zf_pv_float(v, &f);
        pv_out_number(o, f);
        break;
    case ZF_PV_INT:
        (void)pvjson_scalar(o, v);
        break;
    case ZF_PV_BYTES:
    case ZF_PV_BIGINT:
        zf_pvjson_raw(o, "0x");
        pv_out_hex(o, p, n);
        break;
    case ZF_PV_GLOBAL:
    case ZF_PV_CALL:
        pvjson_chars(o, zf_pv_module(v), strlen(zf_pv_module(v)));
        zf_pvjson_raw(o, ".");
        pvjson_chars(o, zf_pv_name(v), strlen(zf_pv_name(v)));
        zf_pvjson_raw(o, zf_pv_kind(v) == ZF_PV_CALL ? "(...)" : "");
        break;
    default:
        zf_pvjson_raw(o, "(...)");
        break;
    }
}

void pvjson_key(struct zf_pvjson *o, const struct zf_pv *v)
{
    if (zf_pv_kind(v) != ZF_PV_TUPLE) {
        pv_out_simple_key(o, v);
        return;
    }
    zf_pvjson_raw(o, "(");
    for (uint64_t i = 0; i < zf_pv_len(v) && !o->failed; i++) {
        zf_pvjson_raw(o, i ? ", " : "");
        pv_out_simple_key(o, zf_pv_item(v, i));
    }
    zf_pvjson_raw(o, zf_pv_len(v) == 1 ? ",)" : ")");
}
