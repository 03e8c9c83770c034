/* SPDX-License-Identifier: Apache-2.0 */
/* LRU cache of blocks of remote objects, in memory.  The first reader that needs a block claims and fetches it; other
 * readers of the block wait for that fetch.  All stores of a process share one cache. */
#ifndef REMOTE_BLOCKCACHE_H
#define REMOTE_BLOCKCACHE_H

#include <zf/base/err.h>

#define BLOCK_SIZE (64u << 10)

/* Each user pins the block; the data are complete once it is ready. */
struct block {
    uint8_t *data;
    size_t n; /* bytes; less than BLOCK_SIZE at the end of an object */
};

struct blockcache;
/* bytes: limit of all blocks together.  Errors: ZF_E_NOMEM. */
struct blockcache *blockcache_new(uint64_t bytes, struct zf_err *err) ZF_CHECKED;
void blockcache_free(struct blockcache *c);

/* A unique number for an object. */
uint64_t blockcache_owner(struct blockcache *c);

enum blockcache_find {
    BLOCKCACHE_NONE,  /* out of memory */
    BLOCKCACHE_MINE,  /* the caller must fetch the block and then call blockcache_loaded once */
    BLOCKCACHE_THERE, /* the block is ready, or being fetched */
};
/* Finds or creates block k, of n bytes, of the object `owner`, and pins it.  *ready_out: its data are complete. */
enum blockcache_find blockcache_claim(struct blockcache *c, uint64_t owner, uint64_t k, size_t n,
                                      struct block **out, bool *ready_out);
/* Pins a block once more. */
void blockcache_again(struct blockcache *c, struct block *b);
/* Bytes that can be claimed before a prefetched block would be evicted unused. */
uint64_t blockcache_room(struct blockcache *c);

/* Ends the fetch of a block.  why: the failure, which waiting readers get; NULL: success. */
void blockcache_loaded(struct blockcache *c, struct block *b, const struct zf_err *why);
/* Waits until a block is ready.  Errors: those of the fetch; ZF_E_IO the reader was interrupted (err->sys EINTR). */
bool blockcache_wait(struct blockcache *c, struct block *b, struct zf_err *err) ZF_CHECKED;
void blockcache_unpin(struct blockcache *c, struct block *b);

#endif
