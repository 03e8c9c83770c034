/* SPDX-License-Identifier: Apache-2.0 */
/* A table from 64-bit hashes to numbers: 16 bytes an entry, so that a million names cost 16 MB
 * while a checkpoint is built.  For questions where a false yes does no harm. */
#ifndef ZF_BASE_HASHES_H
#define ZF_BASE_HASHES_H

#include <zf/base/err.h>

struct zf_hash_slot {
    uint64_t hash; /* 0 = free */
    uint64_t value;
};

/* {0} is an empty table. */
struct zf_hashes {
    struct zf_hash_slot *slot;
    size_t n, cap;
};

/* FNV-1a of p[n], and of two texts that can be told apart. */
uint64_t zf_fnv(const char *p, size_t n);
uint64_t zf_hash_pair(const char *a, size_t an, const char *b, size_t bn);

/* Borrows the entry until the next put, or NULL. */
struct zf_hash_slot *zf_hashes_find(const struct zf_hashes *t, uint64_t hash);

/* The same; a new entry has the value 0.  NULL: ZF_E_NOMEM. */
struct zf_hash_slot *zf_hashes_put(struct zf_hashes *t, uint64_t hash,
                                   struct zf_err *err) ZF_CHECKED;

void zf_hashes_fini(struct zf_hashes *t);

#endif
