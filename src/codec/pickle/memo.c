/* SPDX-License-Identifier: Apache-2.0 */
/* Picklers number their memo entries 0, 1, 2 …: these are an array.  Keys far beyond the number of
 * entries so far, which only a hostile pickle has, go to a hash table, so that one large key does
 * not cost its size in memory. */
#include "memo.h"

#include <stdlib.h>
#include <string.h>

struct zf_pickle_memo_far {
    uint64_t key;
    struct zf_pv *v; /* NULL = free */
};

/* The slot of a key, or the one it would take.  The upper bits of a seeded hash choose: no file can know
 * which keys meet, and a table that doubles keeps its order, so that growing walks both in one
 * sweep. */
static struct zf_pickle_memo_far *place(const struct zf_pickle_memo *m, uint64_t key)
{
    uint64_t i = (key ^ m->far_seed) * 0x9e3779b97f4a7c15u;

    i = (i ^ i >> 32) * 0xd6e8feb86659fd93u;
    for (i >>= m->far_shift;; i++) {
        struct zf_pickle_memo_far *f = &m->far[i & (m->far_cap - 1)];

        if (!f->v || f->key == key) {
            return f;
        }
    }
}

static struct zf_pv *far_get(const struct zf_pickle_memo *m, uint64_t key)
{
    return m->far_n ? place(m, key)->v : NULL;
}

struct zf_pv *zf_pickle_memo_get(const struct zf_pickle_memo *m, uint64_t key)
{
    if (key < m->dense_n && m->dense[key]) {
        return m->dense[key];
    }
    return far_get(m, key);
}

static bool dense_grow(struct zf_pickle_memo *m, struct zf_pickle_heap *h, uint64_t key,
                       struct zf_err *err)
{
    if (key >= m->dense_cap) {
        uint64_t cap = m->dense_cap ? m->dense_cap * 2 : 64;
        while (cap <= key) {
            cap *= 2;
        }
        if (!zf_pickle_heap_charge(h, (cap - m->dense_cap) * sizeof(struct zf_pv *), err)) {
            return false;
        }
        struct zf_pv **p = realloc(m->dense, cap * sizeof(struct zf_pv *));
        if (!p) {
            return zf_pickle_no_memory(err);
        }
        m->dense = p;
        m->dense_cap = cap;
    }
    memset(m->dense + m->dense_n, 0, (key + 1 - m->dense_n) * sizeof(struct zf_pv *));
    m->dense_n = key + 1;
    return true;
}

static bool far_grow(struct zf_pickle_memo *m, struct zf_pickle_heap *h, struct zf_err *err)
{
    struct zf_pickle_memo old = *m;
    uint64_t cap = m->far_cap ? m->far_cap * 2 : 64;

    if (!zf_pickle_heap_charge(h, (cap - m->far_cap) * sizeof *m->far, err)) {
        return false;
    }
    struct zf_pickle_memo_far *far = calloc(cap, sizeof *far);
    if (!far) {
        return zf_pickle_no_memory(err);
    }
    m->far = far;
    m->far_cap = cap;
    m->far_shift = old.far ? old.far_shift - 1 : 64 - 6;
    m->far_seed = old.far ? old.far_seed : (uint64_t)(uintptr_t)far;
    for (uint64_t i = 0; i < old.far_cap; i++) {
        if (old.far[i].v) {
            *place(m, old.far[i].key) = old.far[i];
        }
    }
    free(old.far);
    return true;
}

static bool count(struct zf_pickle_memo *m, const struct zf_pickle_heap *h, struct zf_err *err)
{
    if (m->n >= h->lim->pickle_memo) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "more memo entries than the limit pickle_memo allows (%llu)",
                       (unsigned long long)h->lim->pickle_memo);
    }
    m->n++;
    return true;
}

static bool far_put(struct zf_pickle_memo *m, struct zf_pickle_heap *h, uint64_t key,
                    struct zf_pv *v, struct zf_err *err)
{
    if (m->far_n >= m->far_cap / 4 * 3 && !far_grow(m, h, err)) {
        return false;
    }
    struct zf_pickle_memo_far *f = place(m, key);
    if (!f->v) {
        if (!count(m, h, err)) {
            return false;
        }
        m->far_n++;
    }
    *f = (struct zf_pickle_memo_far){.key = key, .v = v};
    return true;
}

bool zf_pickle_memo_put(struct zf_pickle_memo *m, struct zf_pickle_heap *h, uint64_t key,
                        struct zf_pv *v, struct zf_err *err)
{
    if (key >= m->dense_n && key / 2 > m->n) {
        return far_put(m, h, key, v, err);
    }
    if (!zf_pickle_memo_get(m, key) && !count(m, h, err)) {
        return false;
    }
    if (key >= m->dense_n && !dense_grow(m, h, key, err)) {
        return false;
    }
    m->dense[key] = v;
    return true;
}

void zf_pickle_memo_fini(struct zf_pickle_memo *m)
{
    free(m->dense);
    free(m->far);
}
