/* SPDX-License-Identifier: Apache-2.0 */
/* For test_pickle.py: reads pickles from stdin, each behind its length (8 bytes, little-endian),
 * and writes a line for each: the value in a notation of its own, or "! " and the error.  With
 * --json: the length of the JSON (or of the "! " line) and a newline, then the JSON.
 * Each is read once more with its calls folded, and a difference ends this. */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/codec/pickle.h>
#include <zf/codec/pvjson.h>

#include "../../support/folded.h"

#define DEPTH 40

static void dump(const struct zf_pv *v, unsigned depth);

static void dump_hex(char kind, const struct zf_pv *v)
{
    uint64_t n;
    const char *p = zf_pv_text(v, &n);

    putchar(kind);
    for (uint64_t i = 0; i < n; i++)
        printf("%02x", (unsigned char)p[i]);
}

static void dump_items(const struct zf_pv *v, const char *brackets, unsigned depth)
{
    putchar(brackets[0]);
    for (uint64_t i = 0; i < zf_pv_len(v); i++) {
        if (zf_pv_is_map(v)) {
            dump(zf_pv_key(v, i), depth);
            putchar(':');
            dump(zf_pv_val(v, i), depth);
        } else {
            dump(zf_pv_item(v, i), depth);
        }
        putchar(',');
    }
    putchar(brackets[1]);
}

static void dump_name(const char *p)
{
    for (; *p; p++)
        putchar((unsigned char)*p < 0x20 ? '?' : *p);
}

static void dump_call(const struct zf_pv *v, unsigned depth)
{
    printf("call ");
    dump(zf_pv_callee(v), depth);
    dump(zf_pv_args(v), depth);
    if (zf_pv_kwargs(v)) {
        printf("**");
        dump(zf_pv_kwargs(v), depth);
    }
    if (zf_pv_len(v))
        dump_items(v, zf_pv_is_map(v) ? "{}" : "[]", depth);
    if (zf_pv_state(v)) {
        printf("state ");
        dump(zf_pv_state(v), depth);
    }
}

static void dump(const struct zf_pv *v, unsigned depth)
{
    int64_t i = 0;
    double f = 0;
    bool b = false;

    if (depth-- == 0) {
        printf("...");
        return;
    }
    switch (zf_pv_kind(v)) {
    case ZF_PV_NONE:
        printf("None");
        break;
    case ZF_PV_BOOL:
        (void)zf_pv_bool(v, &b);
        printf(b ? "True" : "False");
        break;
    case ZF_PV_INT:
        (void)zf_pv_int(v, &i);
        printf("%" PRId64, i);
        break;
    case ZF_PV_BIGINT:
        dump_hex('I', v);
        break;
    case ZF_PV_FLOAT:
        (void)zf_pv_float(v, &f);
        memcpy(&i, &f, sizeof i);
        printf("f%016" PRIx64, (uint64_t)i);
        break;
    case ZF_PV_BYTES:
        dump_hex('b', v);
        break;
    case ZF_PV_STR:
        dump_hex('u', v);
        break;
    case ZF_PV_TUPLE:
        dump_items(v, "()", depth);
        break;
    case ZF_PV_LIST:
        dump_items(v, "[]", depth);
        break;
    case ZF_PV_DICT:
        dump_items(v, "{}", depth);
        break;
    case ZF_PV_SET:
        dump_items(v, "<>", depth);
        break;
    case ZF_PV_GLOBAL:
        dump_name(zf_pv_module(v));
        putchar('.');
        dump_name(zf_pv_name(v));
        break;
    case ZF_PV_CALL:
        dump_call(v, depth);
        break;
    case ZF_PV_PERSID:
        printf("pid ");
        dump(zf_pv_persid(v), depth);
        break;
    case ZF_PV_EXT:
        printf("ext");
        break;
    }
}

static bool json(const struct zf_pv *v, const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(mem) char *out = NULL;
    uint64_t n;

    if (!zf_pv_json(v, lim, NULL, &out, &n, err))
        return false;
    printf("%" PRIu64 "\n", n);
    (void)fwrite(out, 1, n, stdout);
    return true;
}

static void compare_folded(const void *p, uint64_t n, const struct zf_pv *plain,
                           const struct zf_limits *lim, const struct zf_err *why)
{
    struct zf_err err;
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(UINT64_MAX, &err);
    const struct zf_pv *v = arena ? folded_load(p, n, arena, lim, &err) : NULL;
    bool same = plain ? v && folded_same(plain, v, 6)
                      : !v && err.code == why->code && err.off == why->off &&
                            (err.code == ZF_E_LIMIT || strcmp(err.msg, why->msg) == 0);

    if (!same) {
        (void)fprintf(stderr, "pickle_dump: another value when it is folded; %s\n",
                      v ? "" : err.msg);
        abort();
    }
}

static bool one(bool as_json)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    uint64_t n;
    char text[800];

    lim.pickle_memory = 64 << 20;
    lim.text_bytes = 1 << 20;
    if (fread(&n, sizeof n, 1, stdin) != 1)
        return false;
    n = le64toh(n);
    zf_auto(mem) char *p = malloc(n ? n : 1);
    if (!p || fread(p, 1, n, stdin) != n)
        return false;
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(UINT64_MAX, &err);
    struct zf_bytes in = zf_bytes_of(p, n);
    const struct zf_pv *v = arena ? zf_pickle_load(&in, arena, &lim, &err) : NULL;
    compare_folded(p, n, v, &lim, &err);
    if (v && !as_json) {
        dump(v, DEPTH);
        printf(" @%" PRIu64 "\n", in.at);
    } else if (!v || !json(v, &lim, &err)) {
        (void)zf_err_text(&err, text, sizeof text);
        if (as_json)
            printf("%zu\n", strlen(text) + 3);
        printf("! %s\n", text);
    }
    return true;
}

int main(int argc, char **argv)
{
    bool as_json = argc > 1 && strcmp(argv[1], "--json") == 0;

    while (one(as_json)) {
    }
    return 0;
}
