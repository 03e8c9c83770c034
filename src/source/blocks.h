/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of sources whose bytes are decompressed (or copied) block by block. */
#ifndef SOURCE_BLOCKS_H
#define SOURCE_BLOCKS_H

#include <zf/base/thread.h>
#include <zf/source/gate.h>
#include <zf/source/source.h>

#include "cache.h"

struct blocks;
/* Makes the whole block k; called from any thread.  Returns a reference, NULL on failure. */
typedef struct block *blocks_load_fn(struct blocks *b, uint64_t k, struct zf_err *err);

/* The first member of such a source. */
struct blocks {
    struct zf_source src;
    struct zf_source *parent;
    struct zf_cache *cache;
    struct zf_gate *gate; /* of the file behind parent, borrowed; NULL = none */
    uint64_t owner;       /* this source's number in the cache */
    uint64_t span;        /* bytes of a block; the last one may be shorter */
    pthread_mutex_t lock; /* for `load`: protects its own state */
    blocks_load_fn *load;
};

/* Allocates `each` bytes that start with a struct blocks, the rest zero; ops->pread should be
 * blocks_pread.  Takes its own reference on parent and uses the cache of parent's store.
 * Errors: ZF_E_LIMIT inflate_bytes, ZF_E_NOMEM. */
void *blocks_new(size_t each, const struct zf_source_ops *ops, blocks_load_fn *load,
                 struct zf_source *parent, uint64_t size, const struct zf_limits *lim,
                 struct zf_err *err) ZF_CHECKED;
/* ops->fini of a source that owns nothing else. */
void blocks_fini(struct zf_source *s);

bool blocks_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                  struct zf_err *err) ZF_CHECKED;

/* For ops->want: prefetches the proportional range of the parent, as if the compression ratio were
 * the same everywhere. */
void blocks_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how);

/* For ops->trace: the whole parent is one stream of this codec. */
bool blocks_trace(struct blocks *b, const char *codec, struct zf_trace *t);

/* The number of blocks, and the size of block k in bytes. */
uint64_t blocks_count(const struct blocks *b);
uint64_t blocks_len(const struct blocks *b, uint64_t k);

#endif
