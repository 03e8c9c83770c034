/* SPDX-License-Identifier: Apache-2.0 */
#include "compares.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static atomic_uint_fast64_t compares;

uint64_t compares_so_far(void)
{
    return compares;
}

int strncmp(const char *a, const char *b, size_t n)
{
    compares++;
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] || !a[i])
            return (unsigned char)a[i] - (unsigned char)b[i];
    return 0;
}

int strcmp(const char *a, const char *b)
{
    return strncmp(a, b, SIZE_MAX);
}

int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;

    compares++;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return x[i] - y[i];
    return 0;
}

char *(strchr)(const char *s, int c)
{
    compares++;
    for (;; s++) {
        if (*s == (char)c)
            return (char *)(uintptr_t)s;
        if (!*s)
            return NULL;
    }
}

char *(strrchr)(const char *s, int c)
{
    char *last = NULL;

    compares++;
    for (;; s++) {
        last = *s == (char)c ? (char *)(uintptr_t)s : last;
        if (!*s)
            return last;
    }
}

size_t strcspn(const char *s, const char *stop)
{
    size_t n = 0;

    compares++;
    while (s[n] && !strchr(stop, s[n]))
        n++;
    return n;
}
