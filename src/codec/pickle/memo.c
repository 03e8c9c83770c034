/* SPDX-License-Identifier: Apache-2.0 */
/* Picklers number their memo entries 0, 1, 2 …: these are an array.  Keys far beyond the number of
 * entries so far, which only a hostile pickle has, go to a hash table, so that one large key does
 * not cost its size in memory.  A value that is asked for again may be referenced from several
 * places, and says so as soon as it is put where that is known. */
#include "vm.h"

#include <stdlib.h>
#include <string.h>

/* Charged for an entry of the table. */
#define FAR_BYTES 96u

struct memo_far {
    UT_hash_handle hh; /* key: the memo's */
    struct zf_pv *v;
};

static struct zf_pv *memo_far_get(const struct pickle_memo *m, uint64_t key)
{
    const struct memo_far *f = zf_table_find_id(m->far, key);

    return f ? f->v : NULL;
}

bool pickle_memo_sift(struct pickle_memo *m, struct pickle_heap *h, uint64_t sifted,
                      struct zf_err *err)
{
    if (!pickle_heap_charge(h, m->got.n * sizeof(struct zf_pv *), err))
        return false;
    m->dense = calloc(m->got.n + 1, sizeof(struct zf_pv *));
    if (!m->dense)
        return pickle_no_memory(err);
    m->sifted = sifted;
    return true;
}

struct zf_pv *pickle_memo_get(const struct pickle_memo *m, uint64_t key)
{
    uint64_t rank;

    if (key < m->sifted)
        return pickle_got_rank(&m->got, key, &rank) ? m->dense[rank] : NULL;
    if (key < m->dense_n && m->dense[key])
        return m->dense[key];
    return memo_far_get(m, key);
}

static bool memo_dense_grow(struct pickle_memo *m, struct pickle_heap *h, uint64_t key,
                            struct zf_err *err)
{
    if (key >= m->dense_cap) {
        uint64_t cap = m->dense_cap ? m->dense_cap * 2 : 64;
        while (cap <= key)
            cap *= 2;
        if (!pickle_heap_charge(h, (cap - m->dense_cap) * sizeof(struct zf_pv *), err))
            return false;
        struct zf_pv **p = realloc(m->dense, cap * sizeof(struct zf_pv *));
        if (!p)
            return pickle_no_memory(err);
        m->dense = p;
        m->dense_cap = cap;
    }
    memset(m->dense + m->dense_n, 0, (key + 1 - m->dense_n) * sizeof(struct zf_pv *));
    m->dense_n = key + 1;
    return true;
}

static bool memo_count(struct pickle_memo *m, const struct pickle_heap *h, struct zf_err *err)
{
    if (m->n >= h->lim->pickle_memo) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "more memo entries than the limit pickle_memo allows (%llu)",
                       (unsigned long long)h->lim->pickle_memo);
    }
    m->n++;
    return true;
}

static bool memo_far_put(struct pickle_memo *m, struct pickle_heap *h, uint64_t key,
                         struct zf_pv *v, struct zf_err *err)
{
    struct memo_far *f = zf_table_find_id(m->far, key);

    (void)pickle_again(v);
    if (!f) {
        f = memo_count(m, h, err) && pickle_heap_charge(h, FAR_BYTES, err)
                ? zf_table_make_id(m->far, key, err)
                : NULL;
    }
    if (f)
        f->v = v;
    return f != NULL;
}

/* A value that nobody asks for is not kept; that it had a number counts. */
static bool memo_sifted_put(struct pickle_memo *m, struct pickle_heap *h, uint64_t key,
                            struct zf_pv *v, struct zf_err *err)
{
    uint64_t rank;
    bool was;

    if (pickle_got_rank(&m->got, key, &rank)) {
        was = m->dense[rank] != NULL;
        m->dense[rank] = v;
        (void)pickle_again(v);
    } else if (!pickle_bits_set(&m->set, &m->n_set_words, h, key, &was, err)) {
        return false;
    }
    return was || memo_count(m, h, err);
}

bool pickle_memo_put(struct pickle_memo *m, struct pickle_heap *h, uint64_t key, struct zf_pv *v,
                     struct zf_err *err)
{
    if (key < m->sifted)
        return memo_sifted_put(m, h, key, v, err);
    if (m->sifted || (key >= m->dense_n && key / 2 > m->n))
        return memo_far_put(m, h, key, v, err);
    if (!pickle_memo_get(m, key) && !memo_count(m, h, err))
        return false;
    if (key >= m->dense_n && !memo_dense_grow(m, h, key, err))
        return false;
    m->dense[key] = v;
    return true;
}

void pickle_memo_fini(struct pickle_memo *m)
{
    free(m->dense);
    free(m->set);
    pickle_got_fini(&m->got);
    zf_table_free(m->far);
}
