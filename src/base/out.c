/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/out.h>

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/hex.h>
#include <zf/base/num.h>
#include <zf/base/utf8.h>

#define FIRST 256u /* bytes */

/* Makes room for n more bytes and the terminating zero byte. */
static bool out_room(struct zf_out *o, size_t n)
{
    if (o->bad || n <= o->cap - o->n)
        return !o->bad;
    size_t cap = o->cap ? o->cap : FIRST;
    while (cap - o->n < n && cap <= SIZE_MAX / 2)
        cap *= 2;
    char *p = cap - o->n >= n && cap < SIZE_MAX ? realloc(o->p, cap + 1) : NULL;
    if (!p) {
        o->bad = true;
        return false;
    }
    o->p = p;
    o->cap = cap;
    return true;
}

void zf_out_grow(struct zf_out *o, const void *p, size_t n)
{
    if (out_room(o, n))
        zf_out_add(o, p, n);
}

void zf_out_fmt(struct zf_out *o, const char *fmt, ...)
{
    va_list args, again;

    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    if (n > 0 && out_room(o, (size_t)n)) {
        (void)vsnprintf(o->p + o->n, (size_t)n + 1, fmt, again);
        o->n += (size_t)n;
    }
    o->bad = o->bad || n < 0;
    va_end(again);
    va_end(args);
}

void zf_out_var(struct zf_out *o, uint64_t v)
{
    uint8_t byte[10];
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        byte[n++] = (uint8_t)(v | 0x80);
    byte[n++] = (uint8_t)v;
    zf_out_add(o, byte, n);
}

void zf_out_counted(struct zf_out *o, const void *p, size_t n)
{
    zf_out_var(o, n);
    zf_out_add(o, p, n);
}

void zf_out_fill(struct zf_out *o, char c, size_t n)
{
    if (n && out_room(o, n)) {
        memset(o->p + o->n, c, n);
        o->n += n;
        o->p[o->n] = '\0';
    }
}

void zf_out_str(struct zf_out *o, const char *s)
{
    zf_out_add(o, s, strlen(s));
}

void zf_out_dec(struct zf_out *o, uint64_t v)
{
    char digits[20];

    zf_out_add(o, digits, zf_num_digits(digits, v));
}

void zf_out_hex(struct zf_out *o, const void *p, size_t n)
{
    char digits[3];

    for (size_t i = 0; i < n; i++) {
        zf_hex(digits, (const char *)p + i, 1);
        zf_out_add(o, digits, 2);
    }
}

void zf_out_utf8(struct zf_out *o, uint32_t c)
{
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    unsigned tail = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;

    zf_out_u8(o, (uint8_t)(lead[tail] | c >> 6 * tail));
    while (tail-- > 0)
        zf_out_u8(o, (uint8_t)(0x80 | (c >> 6 * tail & 0x3f)));
}

/* The number of bytes at the beginning of p[n] that need no escape in a JSON string. */
static size_t out_plain(const char *p, size_t n)
{
    size_t i = 0;

    while (i < n && (unsigned char)p[i] >= 0x20 && p[i] != '"' && p[i] != '\\') {
        size_t len = zf_utf8_len(p + i, n - i);

        if (len == 0)
            break;
        i += len;
    }
    return i;
}

void zf_out_json(struct zf_out *o, const char *p, size_t n)
{
    zf_out_u8(o, '"');
    for (size_t i = 0; i < n; i++) {
        size_t run = out_plain(p + i, n - i);
        char esc[8];

        zf_out_add(o, p + i, run);
        i += run;
        if (i == n)
            break;
        unsigned char c = (unsigned char)p[i];
        const char *form = c == '"' || c == '\\' ? "\\%c" : c < 0x20 ? "\\u%04x" : "%%%02X";
        (void)snprintf(esc, sizeof esc, form, c);
        zf_out_str(o, esc);
    }
    zf_out_u8(o, '"');
}

void zf_out_u8(struct zf_out *o, uint8_t v)
{
    zf_out_add(o, &v, sizeof v);
}

void zf_out_le16(struct zf_out *o, uint16_t v)
{
    v = htole16(v);
    zf_out_add(o, &v, sizeof v);
}

void zf_out_le32(struct zf_out *o, uint32_t v)
{
    v = htole32(v);
    zf_out_add(o, &v, sizeof v);
}

void zf_out_le64(struct zf_out *o, uint64_t v)
{
    v = htole64(v);
    zf_out_add(o, &v, sizeof v);
}

bool zf_out_ok(const struct zf_out *o, struct zf_err *err)
{
    return !o->bad || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}
