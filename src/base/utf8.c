/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/utf8.h>

/* Source: RFC 3629, table of well-formed sequences. */
size_t zf_utf8_len(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;

    if (p[0] < 0x80)
        return 1;
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len > n)
        return 0;
    unsigned char lo = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char hi = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    return len;
}

bool zf_utf8_obeyed(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;

    if (len == 1)
        return p[0] < 0x20 || p[0] == 0x7f;
    if (len == 2) {
        return (p[0] == 0xc2 && p[1] < 0xa0) ||
               (p[0] == 0xd8 && p[1] == 0x9c); /* U+0080-9F, 061C */
    }
    if (len != 3 || p[0] != 0xe2)
        return false;
    return p[1] == 0x80   ? p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae)
           : p[1] == 0x81 ? p[2] >= 0xa6 && p[2] <= 0xa9 /* U+2066-2069 */
                          : false;                       /* U+200E, 200F, 2028-202E above */
}

bool zf_utf8_valid(const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = zf_utf8_len(p + i, n - i);

        if (len == 0)
            return false;
        i += len;
    }
    return true;
}
