/* SPDX-License-Identifier: Apache-2.0 */
/* The memo.  A pickler numbers every value 0, 1, 2 …, but refers to few of them again: a first pass over the
 * pickle finds the numbers that are ever got, and for all others only a bit is stored, that they were set.  A
 * value that is got may be referenced from several places, and is marked (ZF_PV_MANY) when it is memoized. */
#include "vm.h"

#include <stdlib.h>
#include <string.h>

/* Sets bit `key`, which is below the limit pickle_memo; *was_out: was it set already? */
static bool memo_set_bit(struct pickle_bits *b, struct pickle_heap *h, uint64_t key, bool *was_out,
                         struct zf_err *err)
{
    const uint64_t word = key / 64, mask = 1ull << key % 64;

    if (word >= b->n) {
        uint64_t n = b->n ? b->n * 2 : 64;

        while (n <= word)
            n *= 2;
        if (!pickle_heap_charge(h, (n - b->n) * sizeof *b->word, err))
            return false;
        uint64_t *more = realloc(b->word, n * sizeof *more);
        if (!more)
            return pickle_no_memory(err);
        memset(more + b->n, 0, (n - b->n) * sizeof *more);
        b->word = more;
        b->n = n;
    }
    *was_out = b->word[word] & mask;
    b->word[word] |= mask;
    return true;
}

bool pickle_memo_ask(struct pickle_memo *m, struct pickle_heap *h, uint64_t key, struct zf_err *err)
{
    bool was = true;

    if (key < h->lim->pickle_memo && !memo_set_bit(&m->asked, h, key, &was, err))
        return false;
    m->n_asked += !was;
    return true;
}

bool pickle_memo_begin(struct pickle_memo *m, struct pickle_heap *h, struct zf_err *err)
{
    uint32_t n = 0;

    if (!pickle_heap_charge(h, m->asked.n * sizeof *m->before + m->n_asked * sizeof(struct zf_pv *),
                            err))
        return false;
    m->before = calloc((size_t)m->asked.n + 1, sizeof *m->before);
    m->v = calloc((size_t)m->n_asked + 1, sizeof(struct zf_pv *));
    if (!m->before || !m->v)
        return pickle_no_memory(err);
    for (uint64_t i = 0; i < m->asked.n; i++) {
        m->before[i] = n;
        n += (unsigned)__builtin_popcountll(m->asked.word[i]);
    }
    return true;
}

/* The slot for the value of a number; NULL: no GET uses the number. */
static struct zf_pv **memo_slot(const struct pickle_memo *m, uint64_t key)
{
    const uint64_t word = key / 64, mask = 1ull << key % 64;

    if (word >= m->asked.n || !(m->asked.word[word] & mask))
        return NULL;
    return m->v + m->before[word] +
           (unsigned)__builtin_popcountll(m->asked.word[word] & (mask - 1));
}

struct zf_pv *pickle_memo_get(const struct pickle_memo *m, uint64_t key)
{
    struct zf_pv **slot = memo_slot(m, key);

    return slot ? *slot : NULL;
}

bool pickle_memo_put(struct pickle_memo *m, struct pickle_heap *h, uint64_t key, struct zf_pv *v,
                     struct zf_err *err)
{
    struct zf_pv **slot = memo_slot(m, key);
    bool was = slot && *slot;

    if (key >= h->lim->pickle_memo) {
        return zf_fail_limit(
            err, ZF_LIMIT_pickle_memo, ZF_OFF_NONE,
            "memo number %llu, more than the limit pickle_memo allows (%llu entries)",
            (unsigned long long)key, (unsigned long long)h->lim->pickle_memo);
    }
    if (slot)
        *slot = pickle_again(v);
    else if (!memo_set_bit(&m->set, h, key, &was, err))
        return false;
    m->n += !was;
    return true;
}

void pickle_memo_fini(struct pickle_memo *m)
{
    free(m->asked.word);
    free(m->set.word);
    free(m->before);
    free(m->v);
}
