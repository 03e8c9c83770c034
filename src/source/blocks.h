/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of sources whose bytes are made block by block. */
#ifndef SOURCE_BLOCKS_H
#define SOURCE_BLOCKS_H

#include <zf/source/source.h>

#include "cache.h"
#include "gate.h"

/* The head of such a source. */
struct blocks {
    struct zf_source src;
    struct zf_source *parent;
    struct zf_cache *cache;
    struct zf_gate *gate; /* of the file that parent comes from, borrowed; NULL = none */
    uint64_t owner;       /* in the cache */
    uint64_t span;        /* bytes of a block; the last one may be shorter */
    /* Makes block k, whole, from any thread.  Gives a reference. */
    struct block *(*load)(struct blocks *b, uint64_t k, struct zf_err *err);
};

/* Fills the head: ops->pread should be blocks_pread.  Takes its own reference on parent and
 * finds the cache of the store that parent comes from.  load is for the caller to set.  On failure
 * nothing is to be freed.  Errors: ZF_E_LIMIT inflate_bytes, ZF_E_NOMEM. */
bool blocks_init(struct blocks *b, const struct zf_source_ops *ops, struct zf_source *parent,
                 uint64_t size, const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void blocks_fini(struct blocks *b);

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
