/* SPDX-License-Identifier: Apache-2.0 */
/* Which memo numbers a pickle asks for, found by reading over it once: a pickler numbers every
 * value, but comes back to few of them, and the others need not be kept. */
#include "vm.h"

#include <stdlib.h>
#include <string.h>

bool pickle_bits_set(uint64_t **bit, uint64_t *n_words, struct pickle_heap *h, uint64_t key,
                     bool *was_out, struct zf_err *err)
{
    uint64_t word = key / 64, mask = 1ull << key % 64;

    if (word >= *n_words) {
        uint64_t n = *n_words ? *n_words * 2 : 64;
        while (n <= word)
            n *= 2;
        if (!pickle_heap_charge(h, (n - *n_words) * sizeof **bit, err))
            return false;
        uint64_t *more = realloc(*bit, n * sizeof *more);
        if (!more)
            return pickle_no_memory(err);
        memset(more + *n_words, 0, (n - *n_words) * sizeof *more);
        *bit = more;
        *n_words = n;
    }
    *was_out = (*bit)[word] & mask;
    (*bit)[word] |= mask;
    return true;
}

bool pickle_got_add(struct pickle_got *g, struct pickle_heap *h, uint64_t key, struct zf_err *err)
{
    bool was;

    if (!pickle_bits_set(&g->bit, &g->n_words, h, key, &was, err))
        return false;
    g->n += !was;
    return true;
}

bool pickle_got_count(struct pickle_got *g, struct pickle_heap *h, struct zf_err *err)
{
    uint32_t n = 0;

    if (!pickle_heap_charge(h, g->n_words * sizeof *g->before, err))
        return false;
    g->before = calloc(g->n_words + 1, sizeof *g->before);
    if (!g->before)
        return pickle_no_memory(err);
    for (uint64_t i = 0; i < g->n_words; i++) {
        g->before[i] = n;
        n += (unsigned)__builtin_popcountll(g->bit[i]);
    }
    return true;
}

void pickle_got_fini(struct pickle_got *g)
{
    free(g->bit);
    free(g->before);
}
