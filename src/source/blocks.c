/* SPDX-License-Identifier: Apache-2.0 */
#include "blocks.h"

#include <inttypes.h>
#include <string.h>

#include <zf/source/want.h>

/* The kernel requests at most 1 MiB at once.  Giant members use larger blocks, so that the state
 * kept for each block stays bounded. */
#define SPAN_MIN (1ull << 20)
#define SPAN_MAX (1ull << 30)
#define BLOCKS_MAX 4096

void *blocks_new(size_t each, const struct zf_source_ops *ops, blocks_load_fn *load,
                 struct zf_source *parent, uint64_t size, const struct zf_limits *lim,
                 struct zf_err *err)
{
    if (size > lim->inflate_bytes) {
        (void)zf_fail_limit(
            err, ZF_LIMIT_inflate_bytes, ZF_OFF_NONE,
            "%" PRIu64 " bytes once decompressed are more than the limit inflate_bytes=%" PRIu64,
            size, lim->inflate_bytes);
        return zf_null(zf_err_in(err, "%s", parent->name));
    }
    struct zf_shared shared = zf_source_shared(parent);
    struct zf_cache *cache =
        shared.cache ? zf_cache_ref(shared.cache) : zf_cache_new(lim->cache_bytes, err);
    struct blocks *b = cache ? zf_source_new(each, ops, parent->name, size, err) : NULL;
    if (!b) {
        zf_cache_unref(&cache);
        return NULL;
    }
    b->src.stored = parent->stored < size ? parent->stored : size;
    b->parent = zf_source_ref(parent);
    b->cache = cache;
    b->gate = shared.gate;
    b->owner = cache_owner(cache);
    b->load = load;
    (void)pthread_mutex_init(&b->lock, NULL);
    for (b->span = SPAN_MIN; size / b->span >= BLOCKS_MAX && b->span < SPAN_MAX;)
        b->span *= 2;
    return b;
}

void blocks_fini(struct zf_source *s)
{
    struct blocks *b = (struct blocks *)s;

    (void)pthread_mutex_destroy(&b->lock);
    cache_drop(b->cache, b->owner);
    zf_cache_unref(&b->cache);
    zf_source_unref(&b->parent);
    zf_source_fini(s);
    free(b);
}

uint64_t blocks_count(const struct blocks *b)
{
    return b->src.size / b->span + (b->src.size % b->span != 0);
}

uint64_t blocks_len(const struct blocks *b, uint64_t k)
{
    uint64_t left = b->src.size - k * b->span;

    return left < b->span ? left : b->span;
}

/* Stays inside the file's gate for all reads of the block: a half-made block cannot be parked, and
 * other threads wait for it at a lock. */
static struct block *blocks_load_inside(struct blocks *b, uint64_t k, struct zf_err *err)
{
    bool held;

    if (!zf_gate_enter(b->gate, &held, err))
        return zf_null(zf_err_in(err, "%s", b->src.name));
    struct block *block = b->load(b, k, err);
    zf_gate_leave(b->gate, held);
    return block;
}

bool blocks_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    struct blocks *b = (struct blocks *)s;
    char *to = buf;

    while (n > 0) {
        uint64_t k = off / b->span, into = off % b->span;
        zf_auto(block) struct block *block = cache_get(b->cache, b->owner, k);

        if (!block) {
            block = blocks_load_inside(b, k, err);
            if (!block)
                return false;
            cache_put(b->cache, b->owner, k, block);
        }
        size_t len = block->n - (size_t)into;
        len = len < n ? len : n;
        memcpy(to, block->data + into, len);
        to += len;
        off += len;
        n -= len;
    }
    return true;
}

void blocks_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    struct blocks *b = (struct blocks *)s;
    const double each = (double)b->parent->size / (double)s->size; /* never called for size 0 */
    const uint64_t from = (uint64_t)((double)off * each);

    zf_source_want(b->parent, from, (uint64_t)((double)n * each) + 1, how);
}

bool blocks_trace(struct blocks *b, const char *codec, struct zf_trace *t)
{
    if (t->codec)
        return false;
    t->codec = codec;
    t->skip = t->off;
    t->packed = b->parent->size;
    t->src = b->parent;
    t->off = 0;
    return true;
}
