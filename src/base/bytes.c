/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/bytes.h>

#include <endian.h>
#include <string.h>

const void *zf_bytes_take(struct zf_bytes *b, uint64_t n)
{
    if (b->bad || n > b->n - b->at) {
        b->bad = true;
        return NULL;
    }
    const uint8_t *p = b->p ? b->p + b->at : (const uint8_t *)"";
    b->at += n;
    return p;
}

uint8_t zf_bytes_u8(struct zf_bytes *b)
{
    const uint8_t *p = zf_bytes_take(b, 1);

    return p ? *p : 0;
}

uint16_t zf_bytes_le16(struct zf_bytes *b)
{
    uint16_t v = 0;
    const void *p = zf_bytes_take(b, sizeof v);

    if (p) {
        memcpy(&v, p, sizeof v);
    }
    return le16toh(v);
}

uint32_t zf_bytes_le32(struct zf_bytes *b)
{
    uint32_t v = 0;
    const void *p = zf_bytes_take(b, sizeof v);

    if (p) {
        memcpy(&v, p, sizeof v);
    }
    return le32toh(v);
}

uint64_t zf_bytes_le64(struct zf_bytes *b)
{
    uint64_t v = 0;
    const void *p = zf_bytes_take(b, sizeof v);

    if (p) {
        memcpy(&v, p, sizeof v);
    }
    return le64toh(v);
}

uint64_t zf_bytes_be64(struct zf_bytes *b)
{
    return __builtin_bswap64(zf_bytes_le64(b));
}

const char *zf_bytes_line(struct zf_bytes *b, uint64_t *len_out)
{
    uint64_t left = zf_bytes_left(b);
    const uint8_t *nl = left ? memchr(b->p + b->at, '\n', left) : NULL;

    *len_out = 0;
    if (!nl) {
        b->bad = true;
        return NULL;
    }
    const uint8_t *p = b->p + b->at;
    *len_out = (uint64_t)(nl - p);
    b->at += *len_out + 1;
    return (const char *)p;
}

bool zf_bytes_ok(const struct zf_bytes *b, const char *what, struct zf_err *err)
{
    if (!b->bad) {
        return true;
    }
    return zf_fail(err, ZF_E_FORMAT, zf_bytes_off(b), "%s ends early: %llu bytes are left", what,
                   (unsigned long long)(b->n - b->at));
}
