/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of decompressed blocks, bounded in bytes.  Blocks that a reader has read completely are evicted first, then the
 * least recently used.  All files of a store share one cache, so a checkpoint of many compressed members keeps to one bound. */
#ifndef SOURCE_CACHE_H
#define SOURCE_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/source/store_kind.h>

/* A cache line of the processor. */
#define BLOCK_ALIGN 64

/* Reference counted memory: readers hold a reference while they copy from it, not a lock. */
struct block {
    atomic_uint refs;
    size_t n, cap; /* bytes used and allocated */
    /* Bytes copied out of it so far: once these are n, a reader has read it completely. */
    atomic_size_t copied;
    bool lent; /* given by cache_block, and not put yet; under the cache's lock */
    _Alignas(BLOCK_ALIGN) uint8_t data[];
};

/* Errors: ZF_E_NOMEM. */
struct block *block_new(uint64_t n, struct zf_err *err) ZF_CHECKED;
void block_unref(struct block **b);
static inline void zf_auto_block(struct block **b)
{
    block_unref(b);
}

/* A unique number for an owner of blocks. */
uint64_t cache_owner(struct zf_cache *c);

/* A reference to the owner's block k; NULL: not in the cache. */
struct block *cache_get(struct zf_cache *c, uint64_t owner, uint64_t k);

/* An uninitialized block of n bytes, to be filled and put into the cache.  Reuses the memory of a block that was read
 * completely, or of the least recently used one if that had to be evicted anyway, provided that nobody reads it and at least
 * half of it is used: the kernel clears fresh memory, which takes longer than reading a file into it.  Call cache_put or
 * cache_give_back afterwards.  Errors: ZF_E_NOMEM. */
struct block *cache_block(struct zf_cache *c, uint64_t n, struct zf_err *err) ZF_CHECKED;
/* Releases a block that could not be filled. */
void cache_give_back(struct zf_cache *c, struct block **b);

/* Would n more bytes evict blocks that readers are in the middle of, counting the blocks being filled? */
bool cache_is_crowded(struct zf_cache *c, uint64_t n);

/* Adds b (with a reference of its own) if it fits. */
void cache_put(struct zf_cache *c, uint64_t owner, uint64_t k, struct block *b);

/* The same, but a block larger than the whole cache is kept, too, in addition to the others, until the
 * next such block: one that can only be made as a whole would otherwise be made again for each row. */
void cache_put_any(struct zf_cache *c, uint64_t owner, uint64_t k, struct block *b);

/* Removes an owner's blocks. */
void cache_drop(struct zf_cache *c, uint64_t owner);

#endif
