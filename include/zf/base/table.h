/* SPDX-License-Identifier: Apache-2.0 */
/* Hash tables are uthash's, doubly linked lists utlist's, and this is the one place that includes them.
 * A table is a pointer to its first entry, NULL when it is empty; an entry is a struct with a
 * `UT_hash_handle hh`, and `for (e = table; e; e = e->hh.next)` goes through them in the order in which
 * they were entered.  HASH_COUNT, HASH_DEL, HASH_ITER, HASH_SORT and HASH_CLEAR, and DL_APPEND and
 * DL_DELETE of lists, allocate nothing and are used as they are; what may fail is below.  Sets of
 * 10^6 are sorted arrays (zf/base/sorted.h): an entry costs some 80 bytes. */
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

/* Adds e, which must not be in the table, under the n bytes at p.  The caller keeps both, and must not move them while
 * e is in the table.  False: ZF_E_NOMEM, the table is unchanged. */
#define zf_table_add(table, p, n, e, err)                                                          \
    __extension__({                                                                                \
        HASH_ADD_KEYPTR(hh, table, p, n, e);                                                       \
        (e)->hh.tbl || zf_table_full(HASH_COUNT(table), err);                                      \
    })

/* The same where the hash of the key is known (HASH_VALUE). */
#define zf_table_add_hashed(table, p, n, hash, e, err)                                             \
    __extension__({                                                                                \
        HASH_ADD_KEYPTR_BYHASHVALUE(hh, table, p, n, hash, e);                                     \
        (e)->hh.tbl || zf_table_full(HASH_COUNT(table), err);                                      \
    })

/* Allocates an entry of `size` zero bytes, followed by a copy of its key. */
static inline void *zf_entry_new(size_t size, const void *p, size_t n)
{
    char *e = calloc(1, size + n);

    if (e)
        (void)memcpy(e + size, p, n);
    return e;
}

/* The entry whose key is the n bytes at p; if there is none, a new one, zero except for `hh`, which
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

#endif
