/* SPDX-License-Identifier: Apache-2.0 */
/* A growing buffer of bytes or text.  If memory runs out, `bad` stays set and the contents are incomplete, so it is
 * enough to check once, at the end.  A zero byte follows the contents, so that it is a C string, too. */
#ifndef ZF_BASE_OUT_H
#define ZF_BASE_OUT_H

#include <string.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>

struct zf_out {
    char *p;       /* malloc'ed; owned; NULL until something was written */
    size_t n, cap; /* cap: without the zero byte */
    bool bad;
};

/* zf_out_add where there is not enough room. */
void zf_out_grow(struct zf_out *o, const void *p, size_t n);

static inline void zf_out_add(struct zf_out *o, const void *p, size_t n)
{
    if (n > o->cap - o->n) {
        zf_out_grow(o, p, n);
    } else if (n) {
        memcpy(o->p + o->n, p, n);
        o->n += n;
        o->p[o->n] = '\0';
    }
}

void zf_out_str(struct zf_out *o, const char *s);
/* Appends as printf does. */
void zf_out_fmt(struct zf_out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void zf_out_u8(struct zf_out *o, uint8_t v);
void zf_out_le16(struct zf_out *o, uint16_t v);
void zf_out_le32(struct zf_out *o, uint32_t v);
void zf_out_le64(struct zf_out *o, uint64_t v);
/* As zf_bytes_var reads it. */
void zf_out_var(struct zf_out *o, uint64_t v);
/* Appends n (zf_out_var), then the bytes p[n]. */
void zf_out_counted(struct zf_out *o, const void *p, size_t n);
void zf_out_fill(struct zf_out *o, char c, size_t n);
/* The number in decimal digits. */
void zf_out_dec(struct zf_out *o, uint64_t v);
/* The bytes p[n] as lower-case hexadecimal digits. */
void zf_out_hex(struct zf_out *o, const void *p, size_t n);
/* The character, up to U+10FFFF, in UTF-8. */
void zf_out_utf8(struct zf_out *o, uint32_t c);
/* p[n] as a JSON string, quotes included.  Bytes that are no UTF-8 become %XX, as in file names. */
void zf_out_json(struct zf_out *o, const char *p, size_t n);

/* True unless memory ran out. */
bool zf_out_ok(const struct zf_out *o, struct zf_err *err) ZF_CHECKED;

/* The text, "" at first; valid until the next write. */
static inline const char *zf_out_text(const struct zf_out *o)
{
    return o->p ? o->p : "";
}

/* Goes back to the first n bytes that were written; the memory is kept. */
static inline void zf_out_cut(struct zf_out *o, size_t n)
{
    if (n < o->n) {
        o->n = n;
        o->p[n] = '\0';
    }
}

static inline void zf_auto_out(struct zf_out *o)
{
    free(o->p);
    *o = (struct zf_out){0};
}

#endif
