/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of sources whose bytes are made block by block. */
#ifndef SOURCE_BLOCKS_H
#define SOURCE_BLOCKS_H

#include <zf/base/thread.h>
#include <zf/source/gate.h>
#include <zf/source/source.h>

#include "cache.h"

struct blocks;
/* Makes block k, whole, from any thread.  Gives a reference. */
typedef struct block *blocks_load_fn(struct blocks *b, uint64_t k, struct zf_err *err);

/* The beginning of such a source. */
struct blocks {
    struct zf_source src;
    struct zf_source *parent;
    struct zf_cache *cache;
    struct zf_gate *gate; /* of the file that parent comes from, borrowed; NULL = none */
    uint64_t owner;       /* in the cache */
    uint64_t span;        /* bytes of a block; the last one may be shorter */
    pthread_mutex_t lock; /* for the kind, of what it needs to make blocks */
    blocks_load_fn *load;
};

/* `each` bytes that begin so, zero behind that; ops->pread should be blocks_pread.  Takes its own
 * reference on parent and finds the cache of the store that parent comes from.
 * Errors: ZF_E_LIMIT inflate_bytes, ZF_E_NOMEM. */
void *blocks_new(size_t each, const struct zf_source_ops *ops, blocks_load_fn *load,
                 struct zf_source *parent, uint64_t size, const struct zf_limits *lim,
                 struct zf_err *err) ZF_CHECKED;
/* As ops->fini, where nothing else is owned. */
void blocks_fini(struct zf_source *s);

bool blocks_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                  struct zf_err *err) ZF_CHECKED;

/* For ops->want: the same share of the parent, as if all of it were packed alike. */
void blocks_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_soon how);

/* For ops->trace: all of the parent is one stream of this kind. */
bool blocks_trace(struct blocks *b, const char *codec, struct zf_trace *t);

/* How many blocks, and the bytes of block k. */
uint64_t blocks_count(const struct blocks *b);
uint64_t blocks_len(const struct blocks *b, uint64_t k);

#endif
