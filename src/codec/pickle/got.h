/* SPDX-License-Identifier: Apache-2.0 */
/* Which memo numbers a pickle asks for, found by reading over it once: a pickler numbers every
 * value, but comes back to few of them, and the others need not be kept. */
#ifndef CODEC_PICKLE_GOT_H
#define CODEC_PICKLE_GOT_H

#include "heap.h"

struct pickle_got {
    uint64_t *bit;    /* [n_words] of numbers below 64 * n_words: is it asked for? */
    uint32_t *before; /* [n_words] how many are, of those before the word */
    uint64_t n_words;
    uint64_t n; /* that are asked for */
};

/* Adds a number.  Errors: ZF_E_LIMIT. */
bool pickle_got_add(struct pickle_got *g, struct pickle_heap *h, uint64_t key,
                    struct zf_err *err) ZF_CHECKED;
/* Counts them, when all are added.  Errors: ZF_E_LIMIT. */
bool pickle_got_count(struct pickle_got *g, struct pickle_heap *h, struct zf_err *err) ZF_CHECKED;
/* Is the number asked for?  Then *rank is how many smaller ones are. */
static inline bool pickle_got_rank(const struct pickle_got *g, uint64_t key, uint64_t *rank)
{
    uint64_t word = key / 64, mask = 1ull << key % 64;

    if (word >= g->n_words || !(g->bit[word] & mask)) {
        return false;
    }
    *rank = g->before[word] + (unsigned)__builtin_popcountll(g->bit[word] & (mask - 1));
    return true;
}
void pickle_got_fini(struct pickle_got *g);

/* A set of numbers as bits, which grows; charged.  n_words: of *bit. */
bool pickle_bits_set(uint64_t **bit, uint64_t *n_words, struct pickle_heap *h, uint64_t key,
                     bool *was_out, struct zf_err *err) ZF_CHECKED;

#endif
