/* SPDX-License-Identifier: Apache-2.0 */
/* A value as a pickle would bring it, written as in Python: {'a': [1, 2.5], 3: 'text', 'n': N, 'f': F} */
#ifndef TESTS_SUPPORT_PICKLED_H
#define TESTS_SUPPORT_PICKLED_H

#include <errno.h>

#include <zf/base/out.h>
#include <zf/codec/pickle.h>

#include "support/unit.h"

/* BINFLOAT is big-endian. */
static inline void pickled_real(struct zf_out *o, double v)
{
    unsigned char b[8];

    memcpy(b, &v, sizeof b);
    zf_out_u8(o, 'G');
    for (int i = 7; i >= 0; i--)
        zf_out_u8(o, b[i]);
}

/* LONG1; 2^79 - 1 where the number does not fit in 64 bits. */
static inline void pickled_int(struct zf_out *o, const char *digits)
{
    errno = 0;
    const uint64_t v = (uint64_t)strtoll(digits, NULL, 10);
    const bool wide = errno == ERANGE;

    zf_out_u8(o, 0x8a);
    zf_out_u8(o, wide ? 10 : 8);
    zf_out_le64(o, wide ? UINT64_MAX : v);
    if (wide)
        zf_out_le16(o, 0x7fff);
}

/* Appends the opcodes of the literal. */
static inline void pickled_put(struct zf_out *o, const char *literal)
{
    const char *end;

    for (const char *s = literal; *s; s = end) {
        end = s + 1;
        if (*s == '{' || *s == '[') {
            zf_out_u8(o, '(');
        } else if (*s == '}' || *s == ']') {
            zf_out_u8(o, *s == '}' ? 'd' : 'l');
        } else if (*s == 'N' || *s == 'F') {
            zf_out_u8(o, *s == 'N' ? 'N' : 0x89);
        } else if (*s == '\'') {
            end = strchr(end, '\'');
            assert_non_null(end);
            zf_out_u8(o, 'X');
            zf_out_le32(o, (uint32_t)(end - s - 1));
            zf_out_add(o, s + 1, (size_t)(end - s - 1));
            end++;
        } else if (strchr("-0123456789", *s)) {
            end = s + strspn(s, "-.0123456789");
            if (memchr(s, '.', (size_t)(end - s)))
                pickled_real(o, strtod(s, NULL));
            else
                pickled_int(o, s);
        }
    }
}

/* The value of the pickle that has the literal's opcodes between these. */
static inline const struct zf_pv *pickled_between(const char *before, const char *literal,
                                                  const char *after, struct zf_arena *a)
{
    const struct zf_limits lim = zf_limits_default();
    zf_auto(out) struct zf_out o = {0};
    struct zf_err err;

    zf_out_str(&o, before);
    pickled_put(&o, literal);
    zf_out_str(&o, after);
    assert_true(zf_out_ok(&o, &err));
    struct zf_bytes in = zf_bytes_of(o.p, o.n);
    const struct zf_pv *v = zf_pickle_load(&in, a, &lim, &err);
    assert_non_null(v);
    return v;
}

static inline const struct zf_pv *pickled(const char *literal, struct zf_arena *a)
{
    return pickled_between("", literal, ".", a);
}

#endif
