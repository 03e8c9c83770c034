/* SPDX-License-Identifier: Apache-2.0 */
/* A value as a pickle would bring it, written as in Python: {'a': [1, 2.5], 3: 'text', 'n': N} */
#ifndef TESTS_SUPPORT_PICKLED_H
#define TESTS_SUPPORT_PICKLED_H

#include <stdio.h>

#include <zf/codec/pickle.h>

#include "support/unit.h"

/* The opcodes of protocol 0 for it; freed with free. */
static inline char *pickled_text(const char *literal)
{
    char *out = malloc(3 * strlen(literal) + 8), *p = out;
    const char *end;

    assert_non_null(out);
    for (const char *s = literal; *s; s = end) {
        end = s + 1;
        if (*s == '{' || *s == '[') {
            *p++ = '(';
        } else if (*s == '}' || *s == ']') {
            *p++ = *s == '}' ? 'd' : 'l';
        } else if (*s == 'N') {
            *p++ = 'N';
        } else if (*s == '\'') {
            end = strchr(end, '\'');
            assert_non_null(end);
            p += sprintf(p, "V%.*s\n", (int)(end - s - 1), s + 1);
            end++;
        } else if (strchr("-0123456789", *s)) {
            end = s + strspn(s, "-.0123456789");
            p += sprintf(p, "%c%.*s\n", memchr(s, '.', (size_t)(end - s)) ? 'F' : 'I',
                         (int)(end - s), s);
        }
    }
    strcpy(p, ".");
    return out;
}

static inline const struct zf_pv *pickled(const char *literal, struct zf_arena *a)
{
    const struct zf_limits lim = zf_limits_default();
    zf_auto(mem) char *text = pickled_text(literal);
    struct zf_bytes in = zf_bytes_of((const uint8_t *)text, strlen(text));
    struct zf_err err;
    const struct zf_pv *v = zf_pickle_load(&in, a, &lim, &err);

    assert_non_null(v);
    return v;
}

#endif
