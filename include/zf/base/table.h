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
#include <string.h>

#include <zf/base/err.h>
#include <zf/base/hash.h>

/* uthash under the key of the process, with failed allocations reported. */
#define HASH_FUNCTION(p, n, h) ((h) = (unsigned)zf_hash(0, (p), (n)))
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

/* The entry in `table` (NULL when empty) whose key is the n bytes at p, or NULL. */
#define zf_table_find(table, p, n)                                                                 \
    __extension__({                                                                                \
        const void *zf_key = (p);                                                                  \
        const size_t zf_key_n = (n);                                                               \
        __typeof__(*(table)) *zf_found;                                                            \
        HASH_FIND(hh, table, zf_key, zf_key_n, zf_found);                                          \
        zf_found;                                                                                  \
    })

/* The same for a terminated text, and for a number. */
#define zf_table_find_str(table, s)                                                                \
    __extension__({                                                                                \
        const char *zf_text = (s);                                                                 \
        zf_table_find(table, zf_text, strlen(zf_text));                                            \
    })
#define zf_table_find_id(table, id)                                                                \
    __extension__({                                                                                \
        const uint64_t zf_id = (id);                                                               \
        zf_table_find(table, &zf_id, sizeof zf_id);                                                \
    })

static inline bool zf_table_full(unsigned n, struct zf_err *err)
{
    return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a table of %u names", n);
}

/* Enters e, which is not in yet, under the n bytes at p; both stay the caller's, unmoved, for as
 * long as e is in.  False: ZF_E_NOMEM, e is not in, the table is as it was. */
#define zf_table_add(table, p, n, e, err)                                                          \
    __extension__({                                                                                \
        HASH_ADD_KEYPTR(hh, table, p, n, e);                                                       \
        (e)->hh.tbl || zf_table_full(HASH_COUNT(table), err);                                      \
    })

/* An entry of `size` bytes that are zero, with a copy of its key behind them. */
static inline void *zf_entry_new(size_t size, const void *p, size_t n)
{
    char *e = calloc(1, size + n);

    if (e) {
        (void)memcpy(e + size, p, n);
    }
    return e;
}

/* The entry whose key is the n bytes at p; where there is none, a new one, zero but for `hh`, which
 * has a copy of the key (hh.key, hh.keylen) and is freed by zf_table_free() or
 * `zf_auto(uthash) struct foo *table = NULL;`: `UT_hash_handle hh` is the first member of such
 * entries.  NULL: ZF_E_NOMEM, the table is as it was. */
#define zf_table_make(table, p, n, err)                                                            \
    __extension__({                                                                                \
        _Static_assert(offsetof(__typeof__(*(table)), hh) == 0, "hh is the first member");         \
        const void *zf_key = (p);                                                                  \
        const size_t zf_key_n = (n);                                                               \
        __typeof__(*(table)) *zf_made;                                                             \
        unsigned zf_hashed;                                                                        \
        HASH_VALUE(zf_key, zf_key_n, zf_hashed);                                                   \
        HASH_FIND_BYHASHVALUE(hh, table, zf_key, zf_key_n, zf_hashed, zf_made);                    \
        if (!zf_made && (zf_made = zf_entry_new(sizeof *zf_made, zf_key, zf_key_n))) {             \
            HASH_ADD_KEYPTR_BYHASHVALUE(hh, table, zf_made + 1, zf_key_n, zf_hashed, zf_made);     \
            if (!zf_made->hh.tbl) {                                                                \
                free(zf_made);                                                                     \
                zf_made = NULL;                                                                    \
            }                                                                                      \
        }                                                                                          \
        zf_made || zf_table_full(HASH_COUNT(table), err) ? zf_made : NULL;                         \
    })
#define zf_table_make_str(table, s, err)                                                           \
    __extension__({                                                                                \
        const char *zf_text = (s);                                                                 \
        zf_table_make(table, zf_text, strlen(zf_text), err);                                       \
    })
#define zf_table_make_id(table, id, err)                                                           \
    __extension__({                                                                                \
        const uint64_t zf_id = (id);                                                               \
        zf_table_make(table, &zf_id, sizeof zf_id, err);                                           \
    })

/* Frees a table and the entries that zf_table_make() made. */
static inline void zf_auto_uthash(void *table)
{
    UT_hash_handle *e = *(UT_hash_handle **)table, *next;

    if (e) {
        free(e->tbl->buckets);
        free(e->tbl);
    }
    for (; e; e = next) {
        next = e->next;
        free(e);
    }
}
#define zf_table_free(table) (zf_auto_uthash(&(table)), (table) = NULL, (void)0)

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
