/* SPDX-License-Identifier: Apache-2.0 */
/* Decompressed blocks kept in memory, at most so many bytes; the longest unused go first. All files
 * of a store share one cache, so a checkpoint of many compressed members keeps to one bound. */
#ifndef SOURCE_CACHE_H
#define SOURCE_CACHE_H

#include <stdatomic.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>

/* A counted piece of memory: whoever copies from it holds a reference, so no lock is
 * held meanwhile. */
struct zf_block {
    atomic_uint refs;
    size_t n;
    uint8_t data[];
};

/* Errors: ZF_E_NOMEM. */
struct zf_block *zf_block_new(uint64_t n, struct zf_err *err) ZF_CHECKED;
void zf_block_unref(struct zf_block **b);
static inline void zf_auto_block(struct zf_block **b)
{
    zf_block_unref(b);
}

struct zf_cache;

/* Errors: ZF_E_NOMEM. */
struct zf_cache *zf_cache_new(uint64_t bytes, struct zf_err *err) ZF_CHECKED;
struct zf_cache *zf_cache_ref(struct zf_cache *c);
void zf_cache_unref(struct zf_cache **c);

/* A number for an owner of blocks that no other owner has. */
uint64_t zf_cache_owner(struct zf_cache *c);

/* Gives a reference to the owner's block k, or NULL when it is not here. */
struct zf_block *zf_cache_get(struct zf_cache *c, uint64_t owner, uint64_t k);

/* Keeps b (with a reference of its own) if it fits. */
void zf_cache_put(struct zf_cache *c, uint64_t owner, uint64_t k, struct zf_block *b);

/* Forgets an owner's blocks. */
void zf_cache_drop(struct zf_cache *c, uint64_t owner);

#endif
