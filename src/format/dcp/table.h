/* SPDX-License-Identifier: Apache-2.0 */
/* From a hash to the numbers (of keys, files, chunks) that have it.  The caller keeps the things
 * and compares them; the hash is seeded,
 * so that a crafted checkpoint cannot make every key collide. */
#ifndef FORMAT_DCP_TABLE_H
#define FORMAT_DCP_TABLE_H

#include <zf/base/auto.h>
#include <zf/base/err.h>

#define ZF_DCP_NONE UINT32_MAX

struct zf_dcp_table {
    uint64_t *slot; /* high half: of the hash; low half: number + 1; 0 = free */
    uint64_t n_slots, n;
};

/* A random seed for all tables of one reading. */
uint64_t zf_dcp_table_seed(void);

/* Hashes n bytes on top of h (start with a seed). */
uint64_t zf_dcp_table_hash(uint64_t h, const void *p, uint64_t n);

/* Enters `number` (below ZF_DCP_NONE); equal hashes may be entered again and again.
 * Errors: ZF_E_NOMEM. */
bool zf_dcp_table_add(struct zf_dcp_table *t, uint64_t hash, uint32_t number,
                      struct zf_err *err) ZF_CHECKED;

/* The next number that was entered with (very likely) this hash, or ZF_DCP_NONE.
 * Start with *at = 0. */
uint32_t zf_dcp_table_next(const struct zf_dcp_table *t, uint64_t hash, uint64_t *at);

static inline void zf_dcp_table_fini(struct zf_dcp_table *t)
{
    free(t->slot);
    t->slot = NULL;
}

#endif
