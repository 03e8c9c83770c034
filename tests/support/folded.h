/* SPDX-License-Identifier: Apache-2.0 */
/* A pickle whose calls are folded (zf_pickle_with.folded) beside the same pickle as it is: nobody may see a difference. */
#ifndef TESTS_SUPPORT_FOLDED_H
#define TESTS_SUPPORT_FOLDED_H

#include <string.h>

#include <zf/codec/pickle.h>

#define FOLDED_WIDTH 4096
#define FOLDED_MOST 100000

static inline bool folded_wants(const struct zf_pv *call)
{
    (void)call;
    return true;
}

static inline const struct zf_pv *folded_load(const void *p, uint64_t n, struct zf_arena *arena,
                                              const struct zf_limits *lim, struct zf_err *err)
{
    struct zf_bytes in = zf_bytes_of(p, n);

    return zf_pickle_load_with(&in, arena, lim, &(struct zf_pickle_with){.folded = folded_wants},
                               err);
}

static inline bool folded_is(const struct zf_pv *v)
{
    struct zf_pv_scratch scratch = {0};

    return zf_pv_unfold(v, &scratch) != v;
}

static inline bool folded_same_plain(const struct zf_pv *a, const struct zf_pv *b)
{
    uint64_t n = 0, m = 0;
    int64_t i = 0, k = 0;
    double f = 0, g = 0;
    const char *p = zf_pv_text(a, &n), *q = zf_pv_text(b, &m);
    bool same = zf_pv_kind(a) == zf_pv_kind(b) && zf_pv_int(a, &i) == zf_pv_int(b, &k) && i == k &&
                zf_pv_float(a, &f) == zf_pv_float(b, &g) && memcmp(&f, &g, sizeof f) == 0 &&
                !p == !q;

    return same && n == m && (!p || memcmp(p, q, n + 1) == 0) &&
           strcmp(zf_pv_module(a), zf_pv_module(b)) == 0 &&
           strcmp(zf_pv_name(a), zf_pv_name(b)) == 0 && zf_pv_late(a) == zf_pv_late(b) &&
           zf_pv_is_map(a) == zf_pv_is_map(b) && zf_pv_is_seq(a) == zf_pv_is_seq(b) &&
           zf_pv_len(a) == zf_pv_len(b);
}

/* Compares no more than *left values. */
static inline bool folded_same_some(const struct zf_pv *a, const struct zf_pv *b, unsigned depth,
                                    uint64_t *left)
{
    struct zf_pv_scratch one = {0}, other = {0};

    if (!a != !b || !folded_same_plain(a, b))
        return false;
    if (!a || depth-- == 0 || *left == 0)
        return true;
    (*left)--;
    a = zf_pv_unfold(a, &one);
    b = zf_pv_unfold(b, &other);
    bool same = folded_same_plain(a, b) &&
                folded_same_some(zf_pv_callee(a), zf_pv_callee(b), depth, left) &&
                folded_same_some(zf_pv_args(a), zf_pv_args(b), depth, left) &&
                folded_same_some(zf_pv_kwargs(a), zf_pv_kwargs(b), depth, left) &&
                folded_same_some(zf_pv_state(a), zf_pv_state(b), depth, left) &&
                folded_same_some(zf_pv_persid(a), zf_pv_persid(b), depth, left);

    for (uint64_t i = 0; same && i < zf_pv_len(a) && i < FOLDED_WIDTH; i++) {
        same = folded_same_some(zf_pv_item(a, i), zf_pv_item(b, i), depth, left) &&
               folded_same_some(zf_pv_key(a, i), zf_pv_key(b, i), depth, left) &&
               folded_same_some(zf_pv_val(a, i), zf_pv_val(b, i), depth, left);
    }
    return same;
}

/* Do both answer every question alike, so deep? */
static inline bool folded_same(const struct zf_pv *a, const struct zf_pv *b, unsigned depth)
{
    uint64_t left = FOLDED_MOST;

    return folded_same_some(a, b, depth, &left);
}

#endif
