/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are read as pickles, one behind the other, and every question is asked of their values.  The first is read
 * once more by somebody who reads along, and once with its calls folded, and must be the same; and its end is looked for. */
#include <stdlib.h>

#include <zf/codec/pickle.h>
#include <zf/codec/pvjson.h>

#include "fuzz.h"
#include "../support/folded.h"
#include "../support/watched.h"

#define DEPTH 6
#define WIDTH 8

static void ask(const struct zf_pv *v, struct zf_arena *arena, unsigned depth)
{
    struct zf_err err;
    int64_t i;
    uint64_t n;
    double f;
    bool b;
    const char *p;

    if (!v || depth == 0)
        return;
    (void)zf_pv_bool(v, &b);
    (void)zf_pv_int(v, &i);
    (void)zf_pv_u64(v, &n);
    (void)zf_pv_float(v, &f);
    p = zf_pv_text(v, &n);
    if (p && p[n] != '\0')
        abort();
    if (zf_pv_bytes(v, arena, &p, &n, &err) && p[n] != '\0')
        abort();
    (void)zf_pv_is(v, "builtins", "getattr");
    (void)zf_pv_get(v, "a");
    ask(zf_pv_attr(v, "b"), arena, 1);
    ask(zf_pv_persid(v), arena, depth - 1);
    ask(zf_pv_callee(v), arena, depth - 1);
    ask(zf_pv_args(v), arena, depth - 1);
    ask(zf_pv_kwargs(v), arena, depth - 1);
    ask(zf_pv_state(v), arena, depth - 1);
    for (uint64_t k = 0; k < zf_pv_len(v) && k < WIDTH; k++) {
        ask(zf_pv_item(v, k), arena, depth - 1);
        ask(zf_pv_key(v, k), arena, depth - 1);
        ask(zf_pv_val(v, k), arena, depth - 1);
    }
}

static void tell(const struct zf_pv *v, const struct zf_limits *lim)
{
    struct zf_err err;
    zf_auto(mem) char *out = NULL;
    uint64_t n;

    if (zf_pv_json(v, lim, NULL, &out, &n, &err) && out[n] != '\0')
        abort();
}

static void along(const uint8_t *data, size_t size, const struct zf_pv *plain,
                  const struct zf_limits *lim)
{
    struct zf_err err;
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(16 * (uint64_t)size + (64 << 20), &err);
    struct watched w;
    const struct zf_pv *v = arena ? watched_load(&w, data, size, arena, lim, plain, &err) : NULL;

    ask(v, arena, DEPTH);
}

static void folded(const uint8_t *data, size_t size, const struct zf_pv *plain,
                   const struct zf_limits *lim)
{
    struct zf_err err;
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(16 * (uint64_t)size + (64 << 20), &err);
    const struct zf_pv *v = arena ? folded_load(data, size, arena, lim, &err) : NULL;

    if (plain && v ? !folded_same(plain, v, 3) : plain && err.code == ZF_E_FORMAT)
        abort();
    ask(v, arena, DEPTH);
}

/* What ends where reading it ends, or is cut where reading it is, is found to be so without reading it. */
static void ends(const uint8_t *data, size_t size, bool read, const struct zf_bytes *after)
{
    struct zf_bytes in = zf_bytes_of(data, size);
    uint64_t want;
    bool end = zf_pickle_end(&in, &want);

    if (read ? !end || in.at != after->at : after->bad && (end || !in.bad || want == 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    /* 16 bytes a byte of pickle, and what one pickle begins with. */
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(16 * (uint64_t)size + (64 << 20), &err);
    struct zf_bytes in = zf_bytes_of(data, size);
    const struct zf_pv *v;

    lim.pickle_memory = 24 * (uint64_t)size + (1 << 20);
    lim.pickle_depth = 500;
    lim.text_bytes = 32 << 10;
    v = arena ? zf_pickle_load(&in, arena, &lim, &err) : NULL;
    if (arena)
        ends(data, size, v, &in);
    along(data, size, v, &lim);
    folded(data, size, v, &lim);
    in = zf_bytes_of(data, size);
    while (arena && (v = zf_pickle_load(&in, arena, &lim, &err)) != NULL) {
        ask(v, arena, DEPTH);
        tell(v, &lim);
    }
    return 0;
}
