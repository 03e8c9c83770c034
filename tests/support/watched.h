/* SPDX-License-Identifier: Apache-2.0 */
/* A pickle read along (zf_pickle_with.watch) beside the same pickle read at once: what was handed over must be what
 * is there in the end. */
#ifndef TESTS_SUPPORT_WATCHED_H
#define TESTS_SUPPORT_WATCHED_H

#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/codec/pickle.h>

#define WATCHED_MAPS 8
#define WATCHED_DEPTH 12

struct watched {
    struct {
        char name[32];
        const struct zf_pv *map, *plain; /* read along, which leaves it empty, and at once */
        uint64_t n, digest;              /* of the pairs, in their order */
    } at[WATCHED_MAPS];
    unsigned n;
    uint64_t n_pairs;
    const struct zf_pv *kept; /* the first key, which was asked to stay, and its digest */
    uint64_t kept_digest;
};

static inline bool watched_is_map(const struct watched *w, const struct zf_pv *v)
{
    for (unsigned i = 0; v && i < w->n; i++)
        if (v == w->at[i].map || v == w->at[i].plain)
            return true;
    return false;
}

/* Of everything that can be asked, so deep; but not what is in those mappings, which may hold themselves. */
static inline uint64_t watched_digest(const struct watched *w, uint64_t h, const struct zf_pv *v,
                                      unsigned depth)
{
    uint64_t n = 0, kind = zf_pv_kind(v);
    const char *p = zf_pv_text(v, &n);
    int64_t i = 0;
    double f = 0;

    (void)zf_pv_int(v, &i);
    (void)zf_pv_float(v, &f);
    h = zf_hash(h + kind, &i, sizeof i);
    h = zf_hash(zf_hash(h, &f, sizeof f), p ? p : "", n);
    h = zf_hash(h, zf_pv_module(v), strlen(zf_pv_module(v)));
    h = zf_hash(h, zf_pv_name(v), strlen(zf_pv_name(v)));
    n = zf_pv_len(v);
    if (watched_is_map(w, v) || (kind == ZF_PV_DICT && n == 0))
        return h; /* an empty one may be read along later */
    h = zf_hash(h, &n, sizeof n);
    if (!v || depth == 0)
        return h;
    h = watched_digest(w, h, zf_pv_args(v), depth - 1);
    h = watched_digest(w, h, zf_pv_state(v), depth - 1);
    h = watched_digest(w, h, zf_pv_kwargs(v), depth - 1);
    h = watched_digest(w, h, zf_pv_persid(v), depth - 1);
    for (uint64_t k = 0; k < n && k < WATCHED_DEPTH; k++) {
        h = watched_digest(w, h, zf_pv_item(v, k), depth / 2);
        h = watched_digest(w, h, zf_pv_key(v, k), depth / 2);
        h = watched_digest(w, h, zf_pv_val(v, k), depth / 2);
    }
    return h;
}

static inline uint64_t watched_pair_digest(const struct watched *w, uint64_t h,
                                           const struct zf_pv *key, const struct zf_pv *val)
{
    return watched_digest(w, watched_digest(w, h, key, WATCHED_DEPTH), val, WATCHED_DEPTH);
}

static inline bool watched_wants(void *ctx, const char *name, const struct zf_pv *map, bool *out,
                                 struct zf_err *err)
{
    struct watched *w = ctx;
    unsigned i = 0;

    (void)err;
    while (i < w->n && w->at[i].map != map)
        i++;
    *out = i < WATCHED_MAPS && strlen(name) < sizeof w->at[i].name && strcmp(name, "not") != 0;
    if (*out && i == w->n) {
        strcpy(w->at[w->n].name, name);
        w->at[w->n++].map = map;
    }
    return true;
}

static inline bool watched_pair(void *ctx, const struct zf_pv *map, const struct zf_pv *key,
                                const struct zf_pv *val, struct zf_err *err)
{
    struct watched *w = ctx;
    unsigned i = 0;

    (void)err;
    while (w->at[i].map != map)
        i++;
    w->at[i].n++;
    w->at[i].digest = watched_pair_digest(w, w->at[i].digest, key, val);
    if (w->n_pairs++ == 0) {
        zf_pv_keep(key);
        w->kept = key;
        w->kept_digest = watched_digest(w, 0, key, WATCHED_DEPTH);
    }
    return true;
}

/* Reads along; what was handed over is in *w.  Aborts when a value that was kept changed, or when `plain`, the same
 * pickle read at once, has other pairs. */
static inline const struct zf_pv *watched_load(struct watched *w, const void *p, uint64_t n,
                                               struct zf_arena *arena, const struct zf_limits *lim,
                                               const struct zf_pv *plain, struct zf_err *err)
{
    struct zf_bytes in = zf_bytes_of(p, n);
    const struct zf_pickle_watch watch = {.wants = watched_wants, .pair = watched_pair, .ctx = w};

    *w = (struct watched){.n = 0};
    const struct zf_pv *v =
        zf_pickle_load_with(&in, arena, lim, &(struct zf_pickle_with){.watch = &watch}, err);
    if (v && w->kept && watched_digest(w, 0, w->kept, WATCHED_DEPTH) != w->kept_digest)
        abort();
    for (unsigned i = 0; i < w->n; i++)
        w->at[i].plain = zf_pv_attr(plain, w->at[i].name);
    for (unsigned i = 0; v && plain && i < w->n; i++) {
        const struct zf_pv *map = w->at[i].plain;
        uint64_t digest = 0;

        if (zf_pv_attr(v, w->at[i].name) != w->at[i].map || zf_pv_len(w->at[i].map))
            continue; /* not that pickle's, or not all of it */
        for (uint64_t k = 0; k < zf_pv_len(map); k++)
            digest = watched_pair_digest(w, digest, zf_pv_key(map, k), zf_pv_val(map, k));
        if (digest != w->at[i].digest || zf_pv_len(map) != w->at[i].n)
            abort();
    }
    return v;
}

#endif
