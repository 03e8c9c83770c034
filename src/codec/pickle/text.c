/* SPDX-License-Identifier: Apache-2.0 */
/* Text and whole numbers as values. */
#include "text.h"

#include <string.h>

#include <zf/base/utf8.h>

static struct zf_pv *text_wrong(struct zf_err *err, const char *what)
{
    return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s", what));
}

/* The bytes of the character at `text`; 0 = invalid UTF-8.  Surrogates are valid, as in Python. */
static size_t text_char(const char *text, uint64_t left)
{
    const uint8_t *p = (const uint8_t *)text;

    if (left >= 3 && p[0] == 0xed && p[1] >= 0xa0 && p[1] <= 0xbf && (p[2] & 0xc0) == 0x80)
        return 3;
    return zf_utf8_len(text, left);
}

/* Is p[n] UTF-8, surrogates allowed?  *nul_out: does it contain a NUL? */
static bool text_utf8(const char *p, uint64_t n, bool *nul_out)
{
    *nul_out = n && memchr(p, '\0', n) != NULL;
    for (uint64_t i = 0; i < n;) {
        uint64_t eight = 0x80;
        if (n - i >= sizeof eight)
            memcpy(&eight, p + i, sizeof eight);
        if ((eight & 0x8080808080808080u) == 0) {
            i += sizeof eight;
            continue;
        }
        size_t k = text_char(p + i, n - i);
        if (k == 0)
            return false;
        i += k;
    }
    return true;
}

static struct zf_pv *text_value(struct pickle_heap *h, const char *p, uint64_t n, bool nul,
                                struct zf_err *err)
{
    struct zf_pv *v = pickle_heap_text(h, ZF_PV_STR, p, n, err);

    if (v && nul)
        v->flags |= ZF_PV_HAS_NUL;
    return v;
}

struct zf_pv *pickle_text_str(struct pickle_heap *h, const char *p, uint64_t n, struct zf_err *err)
{
    bool nul;

    if (!text_utf8(p, n, &nul))
        return text_wrong(err, "holds text that is not UTF-8");
    return text_value(h, p, n, nul, err);
}

struct zf_pv *pickle_text_str2(struct pickle_heap *h, const char *p, uint64_t n, struct zf_err *err)
{
    bool nul;

    if (!text_utf8(p, n, &nul))
        return pickle_heap_text(h, ZF_PV_BYTES, p, n, err);
    return text_value(h, p, n, nul, err);
}

struct zf_pv *pickle_text_twos(struct pickle_heap *h, const char *bytes, uint64_t n,
                               struct zf_err *err)
{
    const uint8_t *p = (const uint8_t *)bytes;
    bool negative = n && (p[n - 1] & 0x80);
    uint8_t fill = negative ? 0xff : 0;

    while (n > 1 && p[n - 1] == fill && (p[n - 2] & 0x80) == (fill & 0x80))
        n--;
    if (n > sizeof(int64_t))
        return pickle_heap_text(h, ZF_PV_BIGINT, bytes, n, err);
    uint64_t u = negative ? UINT64_MAX : 0;
    for (uint64_t i = n; i-- > 0;)
        u = u << 8 | p[i];
    return pickle_heap_int(h, (int64_t)u, err);
}

struct zf_pv *pickle_text_int(struct pickle_heap *h, const char *p, uint64_t n, struct zf_err *err)
{
    const bool negative = n && p[0] == '-';
    const uint64_t most = (uint64_t)INT64_MAX + negative;
    uint64_t u = 0, k = negative;

    for (; k < n && p[k] >= '0' && p[k] <= '9' && u <= (most - (uint64_t)(p[k] - '0')) / 10; k++)
        u = u * 10 + (uint64_t)(p[k] - '0');
    if (k < n || n == negative)
        return text_wrong(err, "is not followed by a decimal number of 64 bits");
    return pickle_heap_int(h, (int64_t)(negative ? 0 - u : u), err);
}
