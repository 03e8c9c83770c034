/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/num.h>
#include <zf/codec/safetensors.h>

enum { WORD = 8 };

/* Growing text; `bad` once memory ran out. */
struct text {
    char *p;
    size_t n, cap;
    bool bad;
};

static void add(struct text *t, const char *p, size_t n)
{
    if (t->bad) {
        return;
    }
    if (t->cap - t->n < n) {
        size_t cap = (t->cap + n) * 2;
        char *bigger = realloc(t->p, cap);
        if (!bigger) {
            t->bad = true;
            return;
        }
        t->p = bigger;
        t->cap = cap;
    }
    memcpy(t->p + t->n, p, n);
    t->n += n;
}

static void add_str(struct text *t, const char *s)
{
    add(t, s, strlen(s));
}

static void add_u64(struct text *t, uint64_t v)
{
    char num[24];

    add(t, num, (size_t)snprintf(num, sizeof num, "%" PRIu64, v));
}

/* Bytes of the UTF-8 character at p[n], 0 when there is none. */
static size_t utf8_len(const char *p, size_t n)
{
    unsigned char c = (unsigned char)*p;
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

    return len <= n && zf_utf8_valid(p, len) ? len : 0;
}

/* A JSON string.  safetensors names are UTF-8: bytes that are none become %XX, as in file names. */
static void add_name(struct text *t, const char *p, size_t n)
{
    char esc[8];

    add(t, "\"", 1);
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)p[i];
        size_t len = utf8_len(p + i, n - i);

        if (c == '"' || c == '\\') {
            add(t, "\\", 1);
            add(t, p + i, 1);
        } else if (c < 0x20) {
            add(t, esc, (size_t)snprintf(esc, sizeof esc, "\\u%04x", (unsigned)c));
        } else if (len == 0) {
            add(t, esc, (size_t)snprintf(esc, sizeof esc, "%%%02X", (unsigned)c));
        } else {
            add(t, p + i, len);
        }
        i += len ? len : 1;
    }
    add(t, "\"", 1);
}

static void add_entry(struct text *t, const struct zf_st_entry *e)
{
    add_name(t, e->name, e->name_len);
    add_str(t, ":{\"dtype\":\"");
    add_str(t, zf_dtype_info(e->dtype)->safetensors);
    add_str(t, "\",\"shape\":[");
    for (uint32_t d = 0; d < e->ndim; d++) {
        bool pairs = e->dtype == ZF_DT_F4 && d + 1 == e->ndim;
        add(t, ",", d > 0);
        add_u64(t, e->shape[d] * (pairs ? 2 : 1));
    }
    add_str(t, "],\"data_offsets\":[");
    add_u64(t, e->begin);
    add(t, ",", 1);
    add_u64(t, e->end);
    add_str(t, "]}");
}

/* Places the entries one behind the other, counted from the data part's begin. */
static bool place(struct zf_st_entry *e, uint64_t n, struct zf_err *err)
{
    uint64_t at = 0, bytes;

    for (uint64_t i = 0; i < n; i++) {
        e[i].begin = at;
        if (!zf_dtype_size(e[i].dtype, e[i].ndim, e[i].shape, &bytes) || !zf_add(at, bytes, &at)) {
            return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more bytes than one file can hold");
        }
        e[i].end = at;
    }
    return true;
}

bool zf_st_emit(struct zf_st_entry *entry, uint64_t n, const char *meta_json, char **out,
                uint64_t *len_out, struct zf_err *err)
{
    struct text t = {.p = NULL};

    *out = NULL;
    if (!place(entry, n, err)) {
        return false;
    }
    add(&t, "\0\0\0\0\0\0\0", WORD);
    add(&t, "{", 1);
    if (meta_json) {
        add_str(&t, "\"__metadata__\":");
        add_str(&t, meta_json);
    }
    for (uint64_t i = 0; i < n; i++) {
        add(&t, ",", i > 0 || meta_json);
        add_entry(&t, &entry[i]);
    }
    add(&t, "}", 1);
    while (t.n % WORD && !t.bad) {
        add(&t, " ", 1);
    }
    if (t.bad) {
        free(t.p);
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a safetensors header");
    }
    for (int i = 0; i < WORD; i++) {
        t.p[i] = (char)((uint64_t)(t.n - WORD) >> (8 * i) & 0xff);
    }
    for (uint64_t i = 0; i < n; i++) {
        entry[i].begin += t.n;
        entry[i].end += t.n;
    }
    *out = t.p;
    *len_out = t.n;
    return true;
}
