/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal digits, read and written. */
#ifndef ZF_BASE_HEX_H
#define ZF_BASE_HEX_H

#include <stddef.h>

/* The value of a digit in either case, or -1. */
static inline int zf_hex_digit(char c)
{
    const char lower = (char)(c | 0x20);

    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Writes the bytes p[n] as 2 * n lower-case digits, terminated. */
void zf_hex(char *out, const void *p, size_t n);

#endif
