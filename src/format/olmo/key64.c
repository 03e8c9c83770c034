/* SPDX-License-Identifier: Apache-2.0 */
#include "key64.h"

#include <inttypes.h>
#include <string.h>

#include <zf/codec/pickle.h>

enum { KEY64_MAX = 1 << 16, KEY64_STEPS = 64 };

bool key64_looks(const char *name, size_t n)
{
    return n >= 8 && n % 4 == 0 && name[0] == 'g' && name[1] == 'A';
}

static int key64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '-'             ? 62
           : c == '_'             ? 63
                                  : -1;
}

static bool key64_refuse(struct zf_err *err, const char *what)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the name is not the base64 of a pickled path, as OLMo writes it: %s", what);
}

/* out: room for n / 4 * 3 bytes. */
static bool key64_bytes(const char *name, size_t n, uint8_t *out, uint64_t *len, struct zf_err *err)
{
    size_t pad = n > 1 && name[n - 1] == '=' ? 1 + (name[n - 2] == '=') : 0;
    uint32_t bits = 0;

    *len = 0;
    if (n == 0 || n % 4 != 0)
        return key64_refuse(err, "its length is not a multiple of 4");
    for (size_t i = 0; i < n; i++) {
        int digit = i < n - pad ? key64_digit(name[i]) : 0;

        if (digit < 0)
            return zf_fail(err, ZF_E_FORMAT, i, "the name has a character that is not base64");
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 == 3) {
            out[(*len)++] = (uint8_t)(bits >> 16);
            out[(*len)++] = (uint8_t)(bits >> 8);
            out[(*len)++] = (uint8_t)bits;
            bits = 0;
        }
    }
    *len -= pad;
    return true;
}

static bool key64_step(const struct zf_pv *v, struct zf_arena *a, struct zf_step *out,
                       struct zf_err *err)
{
    int64_t number;
    uint64_t n;
    const char *text = zf_pv_kind(v) == ZF_PV_STR ? zf_pv_text(v, &n) : NULL;

    if (text) {
        *out = (struct zf_step){.p = text, .n = (size_t)n};
        return true;
    }
    if (zf_pv_kind(v) != ZF_PV_INT || !zf_pv_int(v, &number))
        return key64_refuse(err, "a part of the path is neither text nor a number");
    out->p = zf_arena_fmt(a, err, "%" PRId64, number);
    out->n = out->p ? strlen(out->p) : 0;
    return out->p != NULL;
}

bool key64_read(const char *name, size_t n, const struct zf_limits *lim, struct zf_arena *a,
                struct zf_path *out, bool *pickled, struct zf_err *err)
{
    uint64_t len;
    uint8_t *bytes = n <= KEY64_MAX ? zf_arena_get(a, n, 1, err) : NULL;

    if (n > KEY64_MAX)
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the name has %zu characters, too many", n);
    if (!bytes || !key64_bytes(name, n, bytes, &len, err))
        return false;
    struct zf_bytes in = zf_bytes_of(bytes, len);
    const struct zf_pv *v = zf_pickle_load(&in, a, lim, err), *path = zf_pv_item(v, 0);
    if (!v)
        return false;
    if (zf_bytes_left(&in) > 0 || zf_pv_kind(v) != ZF_PV_TUPLE || zf_pv_len(v) != 2 ||
        zf_pv_kind(path) != ZF_PV_TUPLE || !zf_pv_bool(zf_pv_item(v, 1), pickled) ||
        zf_pv_len(path) == 0 || zf_pv_len(path) > KEY64_STEPS)
        return key64_refuse(err, "it is not a pair of a path and a flag (is pickled)");
    struct zf_step *step = zf_arena_get(a, zf_pv_len(path), sizeof *step, err);
    for (uint32_t i = 0; step && i < zf_pv_len(path); i++)
        if (!key64_step(zf_pv_item(path, i), a, &step[i], err))
            return false;
    *out = (struct zf_path){.step = step, .n = (uint32_t)zf_pv_len(path)};
    return step != NULL;
}
