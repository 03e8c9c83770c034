/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of remote objects in memory, at most this many bytes; the longest unused go first.  The
 * first reader that needs a block claims it and fetches it; others that need it meanwhile wait.
 * One cache serves all stores of a process. */
#ifndef REMOTE_BLOCKCACHE_H
#define REMOTE_BLOCKCACHE_H

#include <zf/base/err.h>

#define BLOCK_SIZE (64u << 10)

/* Pinned by each user; data are complete when it is ready. */
struct block {
    uint8_t *data;
    size_t n; /* the last one of an object may be shorter */
};

struct blockcache;
/* Errors: ZF_E_NOMEM. */
struct blockcache *blockcache_new(uint64_t bytes, struct zf_err *err) ZF_CHECKED;
void blockcache_free(struct blockcache *c);

/* A number for an object that no other one has. */
uint64_t blockcache_owner(struct blockcache *c);

enum blockcache_find {
    BLOCKCACHE_NONE,  /* out of memory */
    BLOCKCACHE_MINE,  /* the caller fetches it, and says blockcache_loaded once */
    BLOCKCACHE_THERE, /* ready, or somebody fetches it */
};
/* The owner's block k, of n bytes, pinned.  *ready_out: it need not be waited for. */
enum blockcache_find blockcache_claim(struct blockcache *c, uint64_t owner, uint64_t k, size_t n,
                                      struct block **out, bool *ready_out);
/* Pins it once more. */
void blockcache_again(struct blockcache *c, struct block *b);
/* Bytes that could be claimed before anything must go that was not used yet. */
uint64_t blockcache_room(struct blockcache *c);

/* Ends the fetch.  why: NULL, or the failure that waiting readers get. */
void blockcache_loaded(struct blockcache *c, struct block *b, const struct zf_err *why);
/* Waits until it is.  Errors: of the fetch; ZF_E_IO the reader was interrupted (err->sys EINTR). */
bool blockcache_wait(struct blockcache *c, struct block *b, struct zf_err *err) ZF_CHECKED;
void blockcache_unpin(struct blockcache *c, struct block *b);

#endif
