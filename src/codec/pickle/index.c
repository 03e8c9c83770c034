/* SPDX-License-Identifier: Apache-2.0 */
/* Small mappings are searched linearly.  A large one gets a hash table of indices at the first
 * lookup. */
#include "node.h"

#include <string.h>

#include <zf/base/hash.h>

struct pv_index {
    uint64_t mask;   /* 0: no table, search linearly */
    uint32_t slot[]; /* [mask + 1]: pair + 1, 0 = free */
};

static const struct pv_index given_up = {.mask = 0};

static bool index_is_key(const struct zf_pv *v, const char *key, uint64_t n)
{
    return v->kind == ZF_PV_STR && v->n == n && memcmp(v->at, key, n) == 0;
}

static const struct zf_pv *index_one_by_one(const struct pv_items *items, uint32_t pairs,
                                            const char *key, uint64_t n)
{
    for (uint64_t i = pairs; i-- > 0;)
        if (index_is_key(items->at[2 * i].v, key, n))
            return items->at[2 * i + 1].v;
    return NULL;
}

/* The slot of a key, or the free one where it would be. */
static uint32_t *index_place(struct pv_index *x, const struct pv_items *items, const char *key,
                             uint64_t n)
{
    for (uint64_t i = zf_hash(0, key, n);; i++) {
        uint32_t *slot = &x->slot[i & x->mask];

        if (*slot == 0 || index_is_key(items->at[2 * (uint64_t)(*slot - 1)].v, key, n))
            return slot;
    }
}

/* Makes the table, unless the keys are excessively long: a hostile file may use one long memoized
 * text as every key. */
static const struct pv_index *index_make(struct pv_items *items, uint32_t pairs)
{
    uint64_t size = 64, patience = 512ull * pairs;
    struct zf_err err;

    while (size < 2ull * pairs)
        size *= 2;
    struct pv_index *x =
        zf_arena_get(items->at[items->cap].arena, size * sizeof x->slot[0] + sizeof *x, 1, &err);
    if (!x)
        return &given_up;
    x->mask = size - 1;
    for (uint32_t i = 0; i < pairs; i++) {
        const struct zf_pv *k = items->at[2 * (uint64_t)i].v;

        if (k->kind != ZF_PV_STR)
            continue;
        if (k->n > patience)
            return &given_up;
        patience -= k->n;
        *index_place(x, items, (const char *)k->at, k->n) = i + 1;
    }
    return x;
}

const struct zf_pv *pickle_index_get(struct pv_items *items, uint32_t pairs, const char *key,
                                     uint64_t n)
{
    if (items->cap < ZF_PV_INDEXED)
        return index_one_by_one(items, pairs, key, n);
    struct pv_index **x = &items->at[items->cap + 1].index;
    if (!*x)
        *x = (struct pv_index *)index_make(items, pairs);
    if ((*x)->mask == 0)
        return index_one_by_one(items, pairs, key, n);
    uint32_t slot = *index_place(*x, items, key, n);
    return slot ? items->at[2 * (uint64_t)(slot - 1) + 1].v : NULL;
}
