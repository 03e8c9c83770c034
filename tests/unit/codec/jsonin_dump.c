/* SPDX-License-Identifier: Apache-2.0 */
/* For test_json_stream.py: reads documents from stdin, each behind its length (8 bytes, little-endian), through
 * a window of a few bytes, and writes a line for each: the value in a notation of its own, or "! " and the
 * error.  With the word "pickled": as zf_pv_of_json gives it. */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/codec/pvjson.h>

#include "codec/json/jsonin.h"

static void dump_text(const struct zf_jsonin *in)
{
    size_t n;
    const char *p = zf_jsonin_text(in, &n);

    putchar('s');
    for (size_t i = 0; i < n; i++)
        printf("%02x", (unsigned char)p[i]);
}

static void dump_scalar(const struct zf_jsonin *in, enum zf_json_kind kind)
{
    if (kind == ZF_JSON_STRING)
        dump_text(in);
    else if (kind == ZF_JSON_INTEGER)
        printf("i%" PRId64, zf_jsonin_integer(in));
    else if (kind == ZF_JSON_REAL)
        printf("r%.17g", zf_jsonin_real(in));
    else
        putchar(kind == ZF_JSON_TRUE ? 't' : kind == ZF_JSON_FALSE ? 'f' : 'n');
}

/* At most json_depth deep. */
static void dump_value(struct zf_jsonin *in)
{
    enum zf_json_kind kind = zf_jsonin_value(in);
    uint32_t level = zf_jsonin_level(in);

    if (kind != ZF_JSON_OBJECT && kind != ZF_JSON_ARRAY) {
        dump_scalar(in, kind);
        return;
    }
    putchar(kind == ZF_JSON_OBJECT ? '{' : '[');
    while (zf_jsonin_next(in, level)) {
        if (kind == ZF_JSON_OBJECT) {
            dump_text(in);
            putchar(':');
        }
        dump_value(in);
        putchar(',');
    }
    putchar(kind == ZF_JSON_OBJECT ? '}' : ']');
}

/* The same of the document as pickled values. */
static void dump_pv(const struct zf_pv *v)
{
    bool object = zf_pv_kind(v) == ZF_PV_DICT, b;
    uint64_t n = 0;
    int64_t i = 0;
    double f = 0;

    if (zf_pv_kind(v) == ZF_PV_STR) {
        const char *p = zf_pv_text(v, &n);

        putchar('s');
        for (uint64_t k = 0; k < n; k++)
            printf("%02x", (unsigned char)p[k]);
    } else if (object || zf_pv_kind(v) == ZF_PV_LIST) {
        putchar(object ? '{' : '[');
        for (uint64_t k = 0; k < zf_pv_len(v); k++) {
            if (object) {
                dump_pv(zf_pv_key(v, k));
                putchar(':');
            }
            dump_pv(object ? zf_pv_val(v, k) : zf_pv_item(v, k));
            putchar(',');
        }
        putchar(object ? '}' : ']');
    } else if (zf_pv_bool(v, &b)) {
        putchar(b ? 't' : 'f');
    } else if (zf_pv_int(v, &i)) {
        printf("i%" PRId64, i);
    } else if (zf_pv_float(v, &f)) {
        printf("r%.17g", f);
    } else {
        putchar('n');
    }
}

static void dump_pickled(const char *data, uint64_t n)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    char text[800];
    zf_auto(arena) struct zf_arena *a = zf_arena_new(64 << 20, &err);
    const struct zf_pv *v = zf_pv_of_json(data, n, a, &lim, &err);

    if (v)
        dump_pv(v);
    else
        printf(" ! %s", zf_err_text(&err, text, sizeof text));
    putchar('\n');
}

static void dump_document(void *data, uint64_t n)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    char text[800];
    zf_auto(source) struct zf_source *src = zf_mem_new("", data, n, false, &err);
    zf_auto(jsonin) struct zf_jsonin *in =
        src ? jsonin_new(src, 0, n, JSONIN_AHEAD, &lim, &err) : NULL;

    if (!in)
        abort();
    dump_value(in);
    if (!zf_jsonin_end(in, &err))
        printf(" ! %s", zf_err_text(&err, text, sizeof text));
    putchar('\n');
}

int main(int argc, char **argv)
{
    uint64_t n;

    while (fread(&n, sizeof n, 1, stdin) == 1) {
        n = le64toh(n);
        zf_auto(mem) void *data = malloc((size_t)n + 1);

        if (!data || fread(data, 1, (size_t)n, stdin) != n)
            return 1;
        if (argc > 1 && strcmp(argv[1], "pickled") == 0)
            dump_pickled(data, n);
        else
            dump_document(data, n);
    }
    return 0;
}
