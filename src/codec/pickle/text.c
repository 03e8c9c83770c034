/* SPDX-License-Identifier: Apache-2.0 */
/* Protocol 0 writes numbers, strings and keys as lines.  Decimal longs are converted limb by limb,
 * with Python's own bound on their length, as the conversion takes quadratic time. */
#include "text.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/hex.h>
#include <zf/base/out.h>
#include <zf/base/utf8.h>

/* Python itself refuses longer decimal numbers, as the conversion takes quadratic time
 * (sys.set_int_max_str_digits). */
#define DIGITS_MAX 4300

static struct zf_pv *text_wrong(struct zf_err *err, const char *what)
{
    return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s", what));
}

/* Length of the character at p in bytes; 0 = not UTF-8, but for surrogates, which Python lets in. */
static size_t text_char(const char *text, uint64_t left)
{
    const uint8_t *p = (const uint8_t *)text;

    if (left >= 3 && p[0] == 0xed && p[1] >= 0xa0 && p[1] <= 0xbf && (p[2] & 0xc0) == 0x80)
        return 3;
    return zf_utf8_len(text, left);
}

/* Is it UTF-8, counting surrogates in?  Says also whether a NUL is in it. */
static bool text_utf8(const char *p, uint64_t n, bool *nul_out)
{
    *nul_out = n && memchr(p, '\0', n) != NULL;
    for (uint64_t i = 0; i < n;) {
        uint64_t eight = 0x80;
        if (n - i >= sizeof eight)
            memcpy(&eight, p + i, sizeof eight);
        if ((eight & 0x8080808080808080u) == 0) {
            i += sizeof eight;
            continue;
        }
        size_t k = text_char(p + i, n - i);
        if (k == 0)
            return false;
        i += k;
    }
    return true;
}

static struct zf_pv *text_value(struct pickle_heap *h, const char *p, uint64_t n, bool nul,
                                struct zf_err *err)
{
    struct zf_pv *v = pickle_heap_text(h, ZF_PV_STR, p, n, err);

    if (v && nul)
        v->flags |= ZF_PV_HAS_NUL;
    return v;
}

struct zf_pv *pickle_text_str(struct pickle_heap *h, const char *p, uint64_t n, struct zf_err *err)
{
    bool nul;

    if (!text_utf8(p, n, &nul))
        return text_wrong(err, "holds text that is not UTF-8");
    return text_value(h, p, n, nul, err);
}

struct zf_pv *pickle_text_str2(struct pickle_heap *h, const char *p, uint64_t n, struct zf_err *err)
{
    bool nul;

    if (!text_utf8(p, n, &nul))
        return pickle_heap_text(h, ZF_PV_BYTES, p, n, err);
    return text_value(h, p, n, nul, err);
}

struct zf_pv *pickle_text_twos(struct pickle_heap *h, const char *bytes, uint64_t n,
                               struct zf_err *err)
{
    const uint8_t *p = (const uint8_t *)bytes;
    bool negative = n && (p[n - 1] & 0x80);
    uint8_t fill = negative ? 0xff : 0;

    while (n > 1 && p[n - 1] == fill && (p[n - 2] & 0x80) == (fill & 0x80))
        n--;
    if (n > sizeof(int64_t))
        return pickle_heap_text(h, ZF_PV_BIGINT, bytes, n, err);
    uint64_t u = negative ? UINT64_MAX : 0;
    for (uint64_t i = n; i-- > 0;)
        u = u << 8 | p[i];
    return pickle_heap_int(h, (int64_t)u, err);
}

/* limb [*n] = limb * scale + add, 32 bits each, least significant first. */
static void text_scale_add(uint32_t *limb, size_t *n, uint32_t scale, uint32_t add)
{
    uint64_t carry = add;

    for (size_t i = 0; i < *n; i++) {
        carry += (uint64_t)limb[i] * scale;
        limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry)
        limb[(*n)++] = (uint32_t)carry;
}

static struct zf_pv *text_big_decimal(struct pickle_heap *h, const char *p, uint64_t n,
                                      bool negative, struct zf_err *err)
{
    /* A limb holds 9 digits and more; one more limb keeps the sign. */
    uint32_t limb[DIGITS_MAX / 9 + 3] = {0};
    uint8_t twos[sizeof limb];
    size_t used = 0;

    for (uint64_t i = 0; i < n;) {
        uint32_t scale = 1, part = 0;
        for (; i < n && scale < 1000000000; i++, scale *= 10)
            part = part * 10 + (uint32_t)(p[i] - '0');
        text_scale_add(limb, &used, scale, part);
    }
    uint8_t carry = negative, flip = negative ? 0xff : 0;
    for (size_t i = 0; i < (used + 1) * 4; i++) {
        uint8_t b = (uint8_t)((limb[i / 4] >> (8 * (i % 4))) ^ flip);
        twos[i] = (uint8_t)(b + carry);
        carry = carry && twos[i] == 0;
    }
    return pickle_text_twos(h, (const char *)twos, (used + 1) * 4, err);
}

struct zf_pv *pickle_text_int(struct pickle_heap *h, const char *p, uint64_t n, struct zf_err *err)
{
    if (n && p[n - 1] == 'L')
        n--;
    bool negative = n && p[0] == '-';
    if (n && (p[0] == '-' || p[0] == '+')) {
        p++;
        n--;
    }
    if (n == 0 || n > DIGITS_MAX)
        return text_wrong(err, n ? "has more than 4300 digits" : "has no digits");
    uint64_t small = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return text_wrong(err, "is not followed by a decimal number");
        if (n <= 18)
            small = small * 10 + (uint64_t)(p[i] - '0');
    }
    if (n <= 18)
        return pickle_heap_int(h, negative ? -(int64_t)small : (int64_t)small, err);
    return text_big_decimal(h, p, n, negative, err);
}

struct zf_pv *pickle_text_float(struct pickle_heap *h, const char *p, uint64_t n,
                                struct zf_err *err)
{
    char line[400], *end;

    /* The longest repr() has 24 bytes; 400 is room for any "%f". */
    if (n == 0 || n >= sizeof line || memchr(p, '\0', n) || memchr(p, 'x', n) || memchr(p, 'X', n))
        return text_wrong(err, "is not followed by a number");
    memcpy(line, p, n);
    line[n] = '\0';
    /* The point is a point in every locale; the C locale object is static in glibc, so this is
     * cheap. */
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c)
        return zf_null(zf_fail_sys(err, "get the C locale"));
    double d = strtod_l(line, &end, c);
    freelocale(c);
    if (*end != '\0' || end == line)
        return text_wrong(err, "is not followed by a number");
    struct zf_pv *v = pickle_heap_new(h, ZF_PV_FLOAT, 1, err);
    if (v)
        v->at[0].f = d;
    return v;
}

/* Decodes the escape behind a backslash; returns the bytes read, 0 = a broken one.  Unknown escapes
 * are kept as they are, as in Python. */
static uint64_t text_escape(const char *p, uint64_t left, struct zf_out *out)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *simple = p[0] ? strchr(from, p[0]) : NULL;
    uint32_t c = 0;
    uint64_t k = 0;

    if (simple) {
        zf_out_u8(out, (uint8_t)to[simple - from]);
        return 1;
    }
    if (p[0] == 'x') {
        if (left < 3 || !zf_hex_number(p + 1, 2, &c))
            return 0;
        zf_out_u8(out, (uint8_t)c);
        return 3;
    }
    for (; k < 3 && k < left && p[k] >= '0' && p[k] <= '7'; k++)
        c = c * 8 + (uint32_t)(p[k] - '0');
    if (k) {
        zf_out_u8(out, (uint8_t)c);
        return k;
    }
    zf_out_u8(out, '\\');
    zf_out_u8(out, (uint8_t)p[0]);
    return 1;
}

bool pickle_text_unquote(const char *p, uint64_t n, struct zf_out *text, struct zf_err *err)
{
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\r' || p[n - 1] == '\t'))
        n--;
    if (n < 2 || (p[0] != '\'' && p[0] != '"') || p[n - 1] != p[0])
        return text_wrong(err, "is not followed by a quoted string") != NULL;
    p++;
    n -= 2;
    for (uint64_t i = 0; i < n;) {
        if (p[i] != '\\') {
            zf_out_u8(text, (uint8_t)p[i++]);
            continue;
        }
        uint64_t k = i + 1 < n ? text_escape(p + i + 1, n - i - 1, text) : 0;
        if (k == 0)
            return text_wrong(err, "holds a broken backslash escape") != NULL;
        i += 1 + k;
    }
    return zf_out_ok(text, err);
}

struct zf_pv *pickle_text_quoted(struct pickle_heap *h, const char *p, uint64_t n,
                                 struct zf_err *err)
{
    zf_auto(out) struct zf_out text = {0};

    return pickle_text_unquote(p, n, &text, err)
               ? pickle_text_str2(h, zf_out_text(&text), text.n, err)
               : NULL;
}

bool pickle_text_unescape(const char *p, uint64_t n, struct zf_out *text, struct zf_err *err)
{
    for (uint64_t i = 0; i < n;) {
        uint32_t c = (uint8_t)p[i++];
        if (c == '\\' && i < n) {
            unsigned digits = p[i] == 'u' ? 4 : p[i] == 'U' ? 8 : 0;
            if (digits &&
                (digits >= n - i || !zf_hex_number(p + i + 1, digits, &c) || c > 0x10ffff))
                return text_wrong(err, "holds a broken \\u escape") != NULL;
            if (digits == 0) {
                zf_out_u8(text, '\\');
                c = (uint8_t)p[i];
            }
            i += 1 + digits;
        }
        zf_out_utf8(text, c);
    }
    return zf_out_ok(text, err);
}

struct zf_pv *pickle_text_raw_unicode(struct pickle_heap *h, const char *p, uint64_t n,
                                      struct zf_err *err)
{
    zf_auto(out) struct zf_out text = {0};

    return pickle_text_unescape(p, n, &text, err)
               ? pickle_text_str(h, zf_out_text(&text), text.n, err)
               : NULL;
}

bool pickle_text_key(const char *p, uint64_t n, uint64_t *out)
{
    uint64_t key = 0;

    if (n == 0 || n > 18)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        key = key * 10 + (uint64_t)(p[i] - '0');
    }
    *out = key;
    return true;
}
