/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/out.h>

#include <endian.h>
#include <string.h>

static bool room(struct zf_out *o, size_t n)
{
    if (o->bad || n <= o->cap - o->n) {
        return !o->bad;
    }
    size_t cap = o->cap ? o->cap : 256;
    while (cap - o->n < n && cap <= SIZE_MAX / 2) {
        cap *= 2;
    }
    char *p = cap - o->n >= n ? realloc(o->p, cap) : NULL;
    if (!p) {
        o->bad = true;
        return false;
    }
    o->p = p;
    o->cap = cap;
    return true;
}

void zf_out_add(struct zf_out *o, const void *p, size_t n)
{
    if (n && room(o, n)) {
        memcpy(o->p + o->n, p, n);
        o->n += n;
    }
}

void zf_out_fill(struct zf_out *o, char c, size_t n)
{
    if (n && room(o, n)) {
        memset(o->p + o->n, c, n);
        o->n += n;
    }
}

void zf_out_str(struct zf_out *o, const char *s)
{
    zf_out_add(o, s, strlen(s));
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
