/* SPDX-License-Identifier: Apache-2.0 */
/* Hash tables.  All are asked for a hash of zf/base/hash.h, so that no checkpoint can make entries
 * collide; all are empty as {0} and give no memory back before the end.
 *
 * zf_index finds things that the caller keeps in an array of its own and compares: it holds nothing
 * but their numbers, in 11 to 21 bytes each.  zf_table keeps the entries itself and takes those of
 * one hash of 64 bits for the same: for questions where a false yes, which nobody can bring about
 * but by chance, does no harm, and for addresses, whose hashes all differ.
 * zf_registry is for things that are allocated one by one, come and go, and do not move. */
#ifndef ZF_BASE_TABLE_H
#define ZF_BASE_TABLE_H

#include <stdlib.h>

#include <zf/base/err.h>

#define ZF_INDEX_NONE UINT32_MAX

struct zf_index {
    uint64_t *slot; /* upper half: of the hash; lower half: number + 1; 0 = free */
    size_t n_slots, n;
};

/* Makes room for n entries in all.  Errors: ZF_E_NOMEM. */
bool zf_index_reserve(struct zf_index *x, size_t n, struct zf_err *err) ZF_CHECKED;

/* Enters `number` (below ZF_INDEX_NONE); a hash may be entered again and again.
 * Errors: ZF_E_NOMEM. */
bool zf_index_add(struct zf_index *x, uint64_t hash, uint32_t number,
                  struct zf_err *err) ZF_CHECKED;

/* Takes out a number that was entered with this hash. */
void zf_index_remove(struct zf_index *x, uint64_t hash, uint32_t number);

/* The next number that was entered with this hash, or (rarely) one much like it; ZF_INDEX_NONE: no
 * more.  Start with *at = 0. */
uint32_t zf_index_next(const struct zf_index *x, uint64_t hash, uint64_t *at);

static inline void zf_index_fini(struct zf_index *x)
{
    free(x->slot);
    *x = (struct zf_index){0};
}

/* Entries are any struct that begins with `uint64_t hash`.  They lie one after the other, in the
 * order in which they were put. */
struct zf_table {
    struct zf_index index;
    void *entry; /* [index.n], of `each` bytes */
    size_t each, cap;
};

/* Lends the entry of this hash until the next put, or NULL. */
void *zf_table_get(const struct zf_table *t, uint64_t hash);

/* The same, and makes it when it is not there: of `each` bytes, always the same number, which are
 * zero but for the hash.  NULL: ZF_E_NOMEM. */
void *zf_table_put(struct zf_table *t, uint64_t hash, size_t each, struct zf_err *err) ZF_CHECKED;

/* What the entries point at is the caller's. */
static inline void zf_table_fini(struct zf_table *t)
{
    zf_index_fini(&t->index);
    free(t->entry);
    *t = (struct zf_table){0};
}

/* The first member of what is entered in a registry, which sets it. */
struct zf_registered {
    uint64_t hash;
    uint32_t number;
};

struct zf_registry {
    struct zf_index index;
    struct zf_registered **at; /* [index.n], in no order that would stay */
    size_t cap;
};

/* Enters a thing, which stays the caller's and must not move until it is removed.
 * Errors: ZF_E_NOMEM. */
bool zf_registry_add(struct zf_registry *r, struct zf_registered *thing, uint64_t hash,
                     struct zf_err *err) ZF_CHECKED;
void zf_registry_remove(struct zf_registry *r, struct zf_registered *thing);

/* The next thing that was entered with this hash, for the caller to compare; NULL: no more.  Start with
 * *at = 0. */
void *zf_registry_next(const struct zf_registry *r, uint64_t hash, uint64_t *at);

/* Puts `at` in order; `compare` gets addresses of two of its elements, as from qsort. */
void zf_registry_sort(struct zf_registry *r, int (*compare)(const void *, const void *));

/* The things are the caller's. */
static inline void zf_registry_fini(struct zf_registry *r)
{
    zf_index_fini(&r->index);
    free(r->at);
    *r = (struct zf_registry){0};
}

static inline void zf_auto_table(struct zf_table *t)
{
    zf_table_fini(t);
}

#endif
