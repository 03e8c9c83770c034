/* SPDX-License-Identifier: Apache-2.0 */
/* Decompressed blocks kept in memory, at most this many bytes; those that somebody went through go first, then the longest
 * unused. All files of a store share one cache, so a checkpoint of many compressed members keeps to one bound. */
#ifndef SOURCE_CACHE_H
#define SOURCE_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/source/store_kind.h>

/* A line of the processor's caches. */
#define BLOCK_ALIGN 64

/* A counted piece of memory: whoever copies from it holds a reference, so no lock is
 * held meanwhile. */
struct block {
    atomic_uint refs;
    size_t n, cap; /* bytes, and those that there is memory for */
    /* Bytes that were copied out of it: when as many as it has, a reader went through it. */
    atomic_size_t copied;
    bool lent; /* by cache_block, and not put yet; under the cache's lock */
    _Alignas(BLOCK_ALIGN) uint8_t data[];
};

/* Errors: ZF_E_NOMEM. */
struct block *block_new(uint64_t n, struct zf_err *err) ZF_CHECKED;
void block_unref(struct block **b);
static inline void zf_auto_block(struct block **b)
{
    block_unref(b);
}

/* A number for an owner of blocks that no other owner has. */
uint64_t cache_owner(struct zf_cache *c);

/* Gives a reference to the owner's block k, or NULL when it is not here. */
struct block *cache_get(struct zf_cache *c, uint64_t owner, uint64_t k);

/* A block of n bytes, whose contents mean nothing, for what will be put here: the memory of one that somebody went through,
 * or of the longest unused if that would have to go for it, where at most a half of it would lie idle and nobody reads it.
 * Fresh memory is cleared by the kernel, which takes longer than reading a file into it.  Put it, or give it back.
 * Errors: ZF_E_NOMEM. */
struct block *cache_block(struct zf_cache *c, uint64_t n, struct zf_err *err) ZF_CHECKED;
/* It could not be filled: lets it go. */
void cache_give_back(struct zf_cache *c, struct block **b);

/* Would n bytes more push out blocks that somebody goes through, those that are being filled among them? */
bool cache_is_crowded(struct zf_cache *c, uint64_t n);

/* Keeps b (with a reference of its own) if it fits. */
void cache_put(struct zf_cache *c, uint64_t owner, uint64_t k, struct block *b);

/* The same; one that is larger than all of the cache is kept as well, besides the others, until the
 * next such comes: what can only be made whole would otherwise be made anew for each of its rows. */
void cache_put_any(struct zf_cache *c, uint64_t owner, uint64_t k, struct block *b);

/* Forgets an owner's blocks. */
void cache_drop(struct zf_cache *c, uint64_t owner);

#endif
