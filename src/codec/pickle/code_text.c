/* SPDX-License-Identifier: Apache-2.0 */
/* Operands that protocol 0 writes as lines; only the listing of imports reads them, never a checkpoint. */
#include "code_vm.h"

#include <string.h>

#include <zf/base/hex.h>
#include <zf/base/out.h>

/* Decodes the escape after a backslash; returns the bytes read, 0 = invalid.  Unknown escapes are
 * kept unchanged, as in Python. */
static uint64_t code_escape(const char *p, uint64_t left, struct zf_out *out)
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

bool code_text_unquote(const char *p, uint64_t n, struct zf_out *text)
{
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\r' || p[n - 1] == '\t'))
        n--;
    if (n < 2 || (p[0] != '\'' && p[0] != '"') || p[n - 1] != p[0])
        return false;
    p++;
    n -= 2;
    for (uint64_t i = 0; i < n;) {
        if (p[i] != '\\') {
            zf_out_u8(text, (uint8_t)p[i++]);
            continue;
        }
        uint64_t k = i + 1 < n ? code_escape(p + i + 1, n - i - 1, text) : 0;
        if (k == 0)
            return false;
        i += 1 + k;
    }
    return !text->bad;
}

bool code_text_unescape(const char *p, uint64_t n, struct zf_out *text)
{
    for (uint64_t i = 0; i < n;) {
        uint32_t c = (uint8_t)p[i++];
        if (c == '\\' && i < n) {
            unsigned digits = p[i] == 'u' ? 4 : p[i] == 'U' ? 8 : 0;
            if (digits &&
                (digits >= n - i || !zf_hex_number(p + i + 1, digits, &c) || c > 0x10ffff))
                return false;
            if (digits == 0) {
                zf_out_u8(text, '\\');
                c = (uint8_t)p[i];
            }
            i += 1 + digits;
        }
        zf_out_utf8(text, c);
    }
    return !text->bad;
}

bool code_text_key(const char *p, uint64_t n, uint64_t *out)
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
