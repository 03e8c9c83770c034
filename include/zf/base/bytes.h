/* SPDX-License-Identifier: Apache-2.0 */
/* Sticky cursor over bytes in memory: the only way codec and format touch input.  After the
 * first short read every read yields 0 or NULL and `bad` stays set; check once, at the end of
 * a record. */
#ifndef ZF_BASE_BYTES_H
#define ZF_BASE_BYTES_H

#include <endian.h>
#include <string.h>

#include <zf/base/err.h>

struct zf_bytes {
    const uint8_t *p; /* borrows */
    uint64_t n, at;   /* bytes in p; bytes read */
    uint64_t base;    /* offset of p[0] in its source, for messages */
    bool bad;
};

static inline struct zf_bytes zf_bytes_of(const void *p, uint64_t n)
{
    return (struct zf_bytes){.p = p, .n = n};
}

static inline uint64_t zf_bytes_left(const struct zf_bytes *b)
{
    return b->bad ? 0 : b->n - b->at;
}

/* The cursor's offset in the source, for messages. */
static inline uint64_t zf_bytes_off(const struct zf_bytes *b)
{
    return b->base + b->at;
}

/* Borrows the next n bytes, or NULL (and bad) when fewer are left. n = 0 gives a
 * non-NULL pointer. */
static inline const void *zf_bytes_take(struct zf_bytes *b, uint64_t n)
{
    if (b->bad || n > b->n - b->at) {
        b->bad = true;
        return NULL;
    }
    const uint8_t *p = n || b->p ? b->p + b->at : (const uint8_t *)"";
    b->at += n;
    return p;
}

static inline uint8_t zf_bytes_u8(struct zf_bytes *b)
{
    const uint8_t *p = zf_bytes_take(b, 1);

    return p ? *p : 0;
}

static inline uint16_t zf_bytes_le16(struct zf_bytes *b)
{
    uint16_t v = 0;
    const void *p = zf_bytes_take(b, sizeof v);

    if (p)
        memcpy(&v, p, sizeof v);
    return le16toh(v);
}

static inline uint32_t zf_bytes_le32(struct zf_bytes *b)
{
    uint32_t v = 0;
    const void *p = zf_bytes_take(b, sizeof v);

    if (p)
        memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static inline uint64_t zf_bytes_le64(struct zf_bytes *b)
{
    uint64_t v = 0;
    const void *p = zf_bytes_take(b, sizeof v);

    if (p)
        memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static inline uint64_t zf_bytes_be64(struct zf_bytes *b)
{
    return __builtin_bswap64(zf_bytes_le64(b));
}

/* Reads a number with 7 bits per byte, the lowest first; the top bit means that more follow.  Sets bad if it does not
 * fit 64 bits. */
static inline uint64_t zf_bytes_var(struct zf_bytes *b)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint64_t byte = zf_bytes_u8(b);

        if (shift == 63 && byte > 1)
            break;
        v |= (byte & 0x7f) << shift;
        if (byte < 0x80)
            return b->bad ? 0 : v;
    }
    b->bad = true;
    return 0;
}

/* Borrows bytes that are preceded by their number (zf_bytes_var); NULL (and bad) as zf_bytes_take. */
static inline const void *zf_bytes_counted(struct zf_bytes *b, uint64_t *n_out)
{
    *n_out = zf_bytes_var(b);
    return zf_bytes_take(b, *n_out);
}

/* Borrows a line without its '\n' (which is consumed); NULL (and bad) when there is no '\n'. */
const char *zf_bytes_line(struct zf_bytes *b, uint64_t *len_out);

#endif
