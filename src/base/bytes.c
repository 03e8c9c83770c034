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
