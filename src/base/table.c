/* SPDX-License-Identifier: Apache-2.0 */
/* The index is an array of slots, a power of two and at most three quarters full.  An entry lies in
 * the slot that its hash names or in the first free one behind it (linear probing), and carries half
 * of its hash: enough to pass over others without looking at the things themselves, and to move it
 * when the array doubles. */
#include <zf/base/table.h>

#include <string.h>

#include <zf/base/vec.h>

#define FIRST_SLOTS 16u

static uint64_t table_word(uint64_t hash, uint32_t number)
{
    return (hash >> 32) << 32 | (number + 1u);
}

static void table_put_word(struct zf_index *x, uint64_t word)
{
    size_t i = (size_t)(word >> 32);

    while (x->slot[i & (x->n_slots - 1)]) {
        i++;
    }
    x->slot[i & (x->n_slots - 1)] = word;
}

bool zf_index_reserve(struct zf_index *x, size_t n, struct zf_err *err)
{
    struct zf_index more = {.n_slots = x->n_slots ? x->n_slots : FIRST_SLOTS, .n = x->n};

    while (n > more.n_slots / 4 * 3 && more.n_slots <= SIZE_MAX / 2) {
        more.n_slots *= 2;
    }
    if (more.n_slots == x->n_slots) {
        return true;
    }
    more.slot = calloc(more.n_slots, sizeof *more.slot);
    if (!more.slot) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a table of %zu names",
                       x->n);
    }
    for (size_t i = 0; i < x->n_slots; i++) {
        if (x->slot[i]) {
            table_put_word(&more, x->slot[i]);
        }
    }
    free(x->slot);
    *x = more;
    return true;
}

bool zf_index_add(struct zf_index *x, uint64_t hash, uint32_t number, struct zf_err *err)
{
    if (!zf_index_reserve(x, x->n + 1, err)) {
        return false;
    }
    table_put_word(x, table_word(hash, number));
    x->n++;
    return true;
}

/* The slot must not stay empty in front of an entry that was put behind it for want of room: such an
 * entry moves up, and leaves a slot of which the same is true. */
void zf_index_remove(struct zf_index *x, uint64_t hash, uint32_t number)
{
    size_t mask = x->n_slots - 1, gap = (size_t)(hash >> 32) & mask;

    while (x->slot[gap] != table_word(hash, number)) {
        gap = (gap + 1) & mask;
    }
    for (size_t i = (gap + 1) & mask; x->slot[i]; i = (i + 1) & mask) {
        size_t home = (size_t)(x->slot[i] >> 32);

        if (((i - home) & mask) >= ((i - gap) & mask)) {
            x->slot[gap] = x->slot[i];
            gap = i;
        }
    }
    x->slot[gap] = 0;
    x->n--;
}

uint32_t zf_index_next(const struct zf_index *x, uint64_t hash, uint64_t *at)
{
    for (uint64_t step = *at; step < x->n_slots; step++) {
        uint64_t word = x->slot[((size_t)(hash >> 32) + step) & (x->n_slots - 1)];

        if (!word) {
            break;
        }
        if (word >> 32 == hash >> 32) {
            *at = step + 1;
            return (uint32_t)word - 1;
        }
    }
    return ZF_INDEX_NONE;
}

static uint64_t *table_entry(const struct zf_table *t, size_t i)
{
    return (uint64_t *)(void *)((char *)t->entry + i * t->each);
}

void *zf_table_get(const struct zf_table *t, uint64_t hash)
{
    uint64_t at = 0;
    uint32_t i;

    while ((i = zf_index_next(&t->index, hash, &at)) != ZF_INDEX_NONE) {
        if (*table_entry(t, i) == hash) {
            return table_entry(t, i);
        }
    }
    return NULL;
}

void *zf_table_put(struct zf_table *t, uint64_t hash, size_t each, struct zf_err *err)
{
    void *entry = zf_table_get(t, hash);
    size_t n = t->index.n;

    if (entry) {
        return entry;
    }
    t->each = each;
    if (n >= ZF_INDEX_NONE || !(entry = zf_vec_grow(t->entry, n, 1, &t->cap, each, err))) {
        return NULL;
    }
    t->entry = entry;
    if (!zf_index_add(&t->index, hash, (uint32_t)n, err)) {
        return NULL;
    }
    uint64_t *made = memset(table_entry(t, n), 0, each);
    *made = hash;
    return made;
}

bool zf_registry_add(struct zf_registry *r, struct zf_registered *thing, uint64_t hash,
                     struct zf_err *err)
{
    const size_t n = r->index.n;

    if (n >= ZF_INDEX_NONE) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a table of %zu names", n);
    }
    void *at = zf_vec_grow(r->at, n, 1, &r->cap, sizeof(struct zf_registered *), err);
    if (!at) {
        return false;
    }
    r->at = at;
    if (!zf_index_add(&r->index, hash, (uint32_t)n, err)) {
        return false;
    }
    *thing = (struct zf_registered){.hash = hash, .number = (uint32_t)n};
    r->at[n] = thing;
    return true;
}

/* The last one moves to its place. */
void zf_registry_remove(struct zf_registry *r, struct zf_registered *thing)
{
    struct zf_registered *last = r->at[r->index.n - 1];

    zf_index_remove(&r->index, last->hash, last->number);
    if (last != thing) {
        zf_index_remove(&r->index, thing->hash, thing->number);
        last->number = thing->number;
        r->at[last->number] = last;
        table_put_word(&r->index, table_word(last->hash, last->number));
        r->index.n++;
    }
}

void *zf_registry_next(const struct zf_registry *r, uint64_t hash, uint64_t *at)
{
    uint32_t i;

    while ((i = zf_index_next(&r->index, hash, at)) != ZF_INDEX_NONE) {
        if (r->at[i]->hash == hash) {
            return r->at[i];
        }
    }
    return NULL;
}

void zf_registry_sort(struct zf_registry *r, int (*compare)(const void *, const void *))
{
    const size_t n = r->index.n;

    if (n > 1) {
        qsort(r->at, n, sizeof(struct zf_registered *), compare);
        memset(r->index.slot, 0, r->index.n_slots * sizeof *r->index.slot);
    }
    for (size_t i = 0; n > 1 && i < n; i++) {
        r->at[i]->number = (uint32_t)i;
        table_put_word(&r->index, table_word(r->at[i]->hash, r->at[i]->number));
    }
}
