/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal digits, read and written. */
#ifndef ZF_BASE_HEX_H
#define ZF_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of a digit in either case, or -1. */
static inline int zf_hex_digit(char c)
{
    const char lower = (char)(c | 0x20);

    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Reads the number of the n digits at p (at most 8); false: there are other characters among them. */
__attribute__((warn_unused_result)) static inline bool zf_hex_number(const char *p, unsigned n,
                                                                     uint32_t *out)
{
    uint32_t v = 0;

    for (unsigned i = 0; i < n; i++) {
        int digit = zf_hex_digit(p[i]);

        if (digit < 0)
            return false;
        v = v << 4 | (uint32_t)digit;
    }
    *out = v;
    return true;
}

/* Writes the bytes p[n] as 2 * n lower-case digits, terminated. */
void zf_hex(char *out, const void *p, size_t n);

#endif
