/* SPDX-License-Identifier: Apache-2.0 */
/* Finds duplicate keys.  A few keys are compared pairwise, many only if their hashes are equal.  Keys are equal as in
 * Python: 1, True and 1.0 are, "1" and b"1" are not, tuples if their elements are.  Objects are equal only to
 * themselves: only their class, which is not executed, could compare two.
 *
 * A hostile file may use one text as a key of a million mappings, so the work is counted, and its limit grows with the
 * pickle. */
#include "vm.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/sorted.h>

#define FEW 8u
#define TUPLES_MAX 16     /* nested tuples; deeper ones are not compared */
#define HASHED 64u        /* bytes of a long text that are hashed at either end */
#define WORK_PER_BYTE 32u /* limit per byte of pickle; a unit is a key, or 16 bytes of one */
#define WORK_AT_ALL (1u << 20)

bool pickle_maps_add(struct pickle_maps *m, struct pickle_heap *h, struct zf_pv *map,
                     struct zf_err *err)
{
    if (m->n == m->cap) {
        struct zf_pv **v = pickle_heap_grow(h, m->v, sizeof *v, &m->cap, err);

        if (!v)
            return false;
        m->v = v;
    }
    m->v[m->n++] = map;
    return true;
}

void pickle_maps_fini(struct pickle_maps *m)
{
    free(m->v);
}

struct check {
    uint64_t work; /* units left */
};

/* ---- equality ---- */

static bool keys_is_number(const struct zf_pv *v)
{
    return v->kind == ZF_PV_BOOL || v->kind == ZF_PV_INT || v->kind == ZF_PV_FLOAT;
}

/* The int64_t that a number equals; false = none. */
static bool keys_integer_of(const struct zf_pv *v, int64_t *out)
{
    if (v->kind != ZF_PV_FLOAT) {
        *out = v->kind == ZF_PV_BOOL ? (int64_t)v->n : v->at[0].i;
        return true;
    }
    if (!(v->at[0].f >= -0x1p63 && v->at[0].f < 0x1p63))
        return false;
    *out = (int64_t)v->at[0].f;
    return (double)*out == v->at[0].f;
}

static bool keys_same_number(const struct zf_pv *a, const struct zf_pv *b)
{
    int64_t i = 0, k = 0;
    bool whole = keys_integer_of(a, &i);

    if (whole != keys_integer_of(b, &k))
        return false;
    return whole ? i == k : a->at[0].f == b->at[0].f;
}

static void keys_spend(struct check *c, uint64_t work)
{
    c->work -= work < c->work ? work : c->work;
}

static bool keys_same_text(struct check *c, const struct zf_pv *a, const struct zf_pv *b)
{
    if (a->n != b->n)
        return false;
    keys_spend(c, a->n / 16);
    return memcmp(a->at, b->at, a->n) == 0;
}

/* Are two keys equal?  For tuples: can they be? */
static bool keys_same_plain(struct check *c, const struct zf_pv *a, const struct zf_pv *b)
{
    keys_spend(c, 1);
    if (a == b)
        return true;
    if (keys_is_number(a) && keys_is_number(b))
        return keys_same_number(a, b);
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case ZF_PV_NONE:
        return true;
    case ZF_PV_STR:
    case ZF_PV_BYTES:
    case ZF_PV_BIGINT:
        return keys_same_text(c, a, b);
    case ZF_PV_GLOBAL:
        return keys_same_text(c, a->at[0].v, b->at[0].v) &&
               keys_same_text(c, a->at[1].v, b->at[1].v);
    case ZF_PV_TUPLE:
        return a->n == b->n;
    default:
        return false;
    }
}

static bool keys_same(struct check *c, const struct zf_pv *a, const struct zf_pv *b)
{
    struct {
        const struct zf_pv *a, *b;
        uint32_t next;
    } at[TUPLES_MAX + 1], *top = at;

    if (!keys_same_plain(c, a, b))
        return false;
    for (;;) {
        if (a != b && a->kind == ZF_PV_TUPLE) {
            if (top == at + TUPLES_MAX)
                return false;
            top++;
            top->a = a;
            top->b = b;
            top->next = 0;
        }
        while (top > at && top->next == top->a->n)
            top--;
        if (top == at)
            return true;
        a = top->a->at[top->next].v;
        b = top->b->at[top->next].v;
        top->next++;
        if (c->work == 0 || !keys_same_plain(c, a, b))
            return false;
    }
}

/* ---- hashes: equal for equal keys ---- */

static uint64_t keys_hash_text(const struct zf_pv *v, uint64_t seed)
{
    const char *p = (const char *)v->at;
    uint64_t n = v->n;

    if (n <= 2 * HASHED)
        return zf_hash(seed, p, n);
    seed = zf_hash(seed + n, p, HASHED);
    return zf_hash(seed, p + n - HASHED, HASHED);
}

static uint64_t keys_hash_plain(const struct zf_pv *v, uint64_t seed)
{
    int64_t i;

    switch (v->kind) {
    case ZF_PV_STR:
    case ZF_PV_BYTES:
    case ZF_PV_BIGINT:
        return keys_hash_text(v, seed + v->kind);
    case ZF_PV_GLOBAL:
        return keys_hash_text(v->at[1].v, seed + v->kind);
    case ZF_PV_BOOL:
    case ZF_PV_INT:
    case ZF_PV_FLOAT:
        return keys_integer_of(v, &i) ? zf_hash(seed + ZF_PV_INT, &i, sizeof i)
                                      : zf_hash(seed + ZF_PV_FLOAT, &v->at[0].f, 8);
    case ZF_PV_NONE:
    case ZF_PV_TUPLE:
        return seed + v->kind;
    default:
        return zf_hash(seed, &v, sizeof v);
    }
}

static uint64_t keys_hash_of(const struct zf_pv *v)
{
    uint64_t h = keys_hash_plain(v, 0);

    for (uint32_t i = 0; v->kind == ZF_PV_TUPLE && i < v->n && i < TUPLES_MAX; i++)
        h = keys_hash_plain(v->at[i].v, h);
    return h;
}

/* ---- one mapping ---- */

static const struct zf_pv *key_at(const struct zf_pv *map, uint64_t i)
{
    return (map->kind == ZF_PV_DICT ? map->at[0].items : map->at[1].more->items)->at[2 * i].v;
}

static bool keys_twice(const struct zf_pv *key, struct zf_err *err)
{
    int64_t i;

    if (key->kind == ZF_PV_STR || key->kind == ZF_PV_BYTES) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the key \"%.200s\" occurs twice in one dict",
                       (const char *)key->at);
    }
    if (keys_is_number(key) && keys_integer_of(key, &i)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the key %lld occurs twice in one dict",
                       (long long)i);
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a key (%s) occurs twice in one dict",
                   pv_kind_names[key->kind]);
}

static bool keys_check_few(struct check *c, const struct zf_pv *map, struct zf_err *err)
{
    for (uint64_t i = 1; i < map->n; i++) {
        for (uint64_t k = 0; k < i; k++)
            if (keys_same(c, key_at(map, i), key_at(map, k)))
                return keys_twice(key_at(map, i), err);
    }
    return true;
}

/* Does a key equal an earlier one with the same hash?  at[n]: pairs of hash and number, sorted. */
static bool keys_is_again(struct check *c, const struct zf_pv *map, const uint64_t *at, size_t i)
{
    for (size_t k = i; k > 0 && at[2 * k - 2] == at[2 * i] && c->work > 0; k--)
        if (keys_same(c, key_at(map, at[2 * i + 1]), key_at(map, at[2 * k - 1])))
            return true;
    return false;
}

/* Reports the first duplicate key. */
static bool keys_check_many(struct check *c, const struct zf_pv *map, struct zf_sorted *seen,
                            struct zf_err *err)
{
    uint64_t again = map->n;
    size_t at;

    for (uint64_t i = 0; i < map->n && c->work > 0; i++) {
        if (!zf_sorted_add_pair(seen, keys_hash_of(key_at(map, i)), i, err))
            return false;
        keys_spend(c, 1);
    }
    (void)zf_sorted_find(seen, 0, &at);
    for (size_t i = 1; i < seen->n && c->work > 0; i++)
        if (seen->at[2 * i + 1] < again && keys_is_again(c, map, seen->at, i))
            again = seen->at[2 * i + 1];
    return again == map->n || keys_twice(key_at(map, again), err);
}

static bool keys_check_one(struct check *c, const struct zf_pv *map, struct zf_err *err)
{
    struct zf_sorted seen = {0};
    bool ok = map->n <= FEW ? keys_check_few(c, map, err) : keys_check_many(c, map, &seen, err);

    zf_sorted_fini(&seen);
    return ok;
}

bool pickle_maps_check(struct pickle_maps *m, uint64_t bytes, struct zf_err *err)
{
    uint64_t may = WORK_PER_BYTE * bytes + WORK_AT_ALL;
    struct check c = {.work = may - m->work};
    bool ok = true;

    for (uint64_t i = m->swept; ok && i < m->n; i++) {
        ok = keys_check_one(&c, m->v[i], err);
        if (ok && c.work == 0) {
            ok = zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                         "the keys of the dicts are too long to compare in the time allowed for a "
                         "pickle of %llu bytes",
                         (unsigned long long)bytes);
        }
    }
    m->work = may - c.work;
    return ok;
}

void pickle_maps_sweep(struct pickle_maps *m)
{
    uint64_t n = m->swept;

    for (uint64_t i = m->swept; i < m->n; i++) {
        if (m->v[i]->kind != ZF_PV_SPENT) {
            m->v[i]->flags |= ZF_PV_MANY; /* this list refers to it, so it must not be freed */
            m->v[n++] = m->v[i];
        }
    }
    m->n = m->swept = n;
}

bool pickle_maps_check_all(struct pickle_maps *m, uint64_t bytes, struct zf_err *err)
{
    m->swept = 0;
    return pickle_maps_check(m, bytes, err);
}
