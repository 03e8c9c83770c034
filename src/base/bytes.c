/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/bytes.h>

#include <string.h>

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
