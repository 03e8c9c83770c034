/* SPDX-License-Identifier: Apache-2.0 */
/* Large blocks of another source, cached in the store's cache: for sources that are efficient only
 * in large reads.
 *
 * A single reader is fastest with the largest blocks.  If several readers read at different
 * positions, or one jumps, large blocks evict each other before they are used up, and each read of a
 * MiB loads a whole block again.  That shows in first reads in the middle of a block: the block size
 * is then halved, at most three times, and doubled again when reads are sequential.  It is also
 * halved when the blocks in use, of all sources, exceed the cache.
 *
 * Loading a block takes about as long as copying it out through a mount, so blocks that are announced (want.h) are
 * loaded by other threads, as far as they fit into the cache beside those that are being read. */
#include <stdatomic.h>
#include <string.h>

#include "blocks.h"
#include "want.h"

/* Block sizes: span, a half, a quarter and an eighth of it. */
#define GRADES 4
/* After SCATTERED blocks in a row that were first read in the middle, blocks get smaller; after FOLLOWED consecutive
 * blocks, larger. */
#define SCATTERED 2
#define FOLLOWED 8
/* A first read up to this offset counts as one at the beginning, since requests may arrive out of order. */
#define MIDDLE(span) ((span) / 16)

struct kept {
    struct blocks b;
    atomic_uint grade; /* the block size is span >> grade */
    /* Under the lock, which is held while a block is read, so that no two threads read the same one. */
    uint64_t end; /* end of the block that was read last */
    unsigned scattered, followed;
};

/* A block: bytes [off, off + n). */
struct kept_block {
    uint64_t key, off, n;
};

/* The block that contains byte `at`.  Blocks of all sizes share one cache; the key includes the size. */
static struct kept_block kept_at(struct kept *s, uint64_t at)
{
    const unsigned grade = atomic_load_explicit(&s->grade, memory_order_relaxed);
    const uint64_t span = s->b.span >> grade, k = at / span, left = s->b.src.size - k * span;

    return (struct kept_block){
        .key = k * GRADES + grade, .off = k * span, .n = left < span ? left : span};
}

/* Adapts the block size before the block is read for a request at offset `into` in it. */
static void kept_notice(struct kept *s, const struct kept_block *w, uint64_t into)
{
    unsigned grade = atomic_load_explicit(&s->grade, memory_order_relaxed);

    s->scattered = into > MIDDLE(s->b.span >> grade) ? s->scattered + 1 : 0;
    s->followed = w->off == s->end ? s->followed + 1 : 0;
    if (s->scattered == SCATTERED || cache_is_crowded(s->b.cache, w->n)) {
        grade += grade + 1 < GRADES;
        s->scattered = s->followed = 0;
    } else if (s->followed == FOLLOWED) {
        grade -= grade > 0;
        s->followed = 0;
    }
    atomic_store_explicit(&s->grade, grade, memory_order_relaxed);
}

/* Loads the block that contains byte `off`; *w describes it. */
static struct block *kept_load(struct kept *s, uint64_t off, struct kept_block *w,
                               struct zf_err *err)
{
    struct blocks *b = &s->b;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&b->lock);
    *w = kept_at(s, off);
    struct block *block = cache_get(b->cache, b->owner, w->key);
    if (!block) {
        kept_notice(s, w, off - w->off);
        *w = kept_at(s, off);
        s->end = w->off + w->n;
        block = cache_block(b->cache, w->n, err);
        if (block && zf_source_pread(b->parent, block->data, block->n, w->off, err))
            cache_put(b->cache, b->owner, w->key, block);
        else if (block)
            cache_give_back(b->cache, &block);
    }
    return block;
}

/* Loads the blocks of bytes [off, off + n) that are not cached.  Failures are ignored: the reads that need the blocks
 * report them. */
static void kept_prefetch(struct zf_source *src, uint64_t off, uint64_t n)
{
    struct kept *s = (struct kept *)src;
    struct zf_err ignored = {0};

    for (uint64_t end = off + n; off < end;) {
        struct kept_block w = kept_at(s, off);
        zf_auto(block) struct block *block = cache_get(s->b.cache, s->b.owner, w.key);

        if (!block && !cache_is_crowded(s->b.cache, w.n))
            block = kept_load(s, w.off, &w, &ignored);
        if (!block)
            return;
        off = w.off + w.n;
    }
}

static void kept_want(struct zf_source *src, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    if (how != ZF_PREFETCH_NOW)
        want_later(src, off, n, kept_prefetch);
}

static bool kept_pread(struct zf_source *src, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    struct kept *s = (struct kept *)src;
    char *to = buf;

    while (n > 0) {
        struct kept_block w = kept_at(s, off);
        bool held;
        zf_auto(block) struct block *block = cache_get(s->b.cache, s->b.owner, w.key);

        if (!block) {
            if (!zf_gate_enter(s->b.gate, &held, err))
                return zf_err_in(err, "%s", src->name);
            block = kept_load(s, off, &w, err);
            zf_gate_leave(s->b.gate, held);
        }
        if (!block)
            return false;
        const size_t into = (size_t)(off - w.off);
        const size_t len = block->n - into < n ? block->n - into : n;
        memcpy(to, block->data + into, len);
        (void)atomic_fetch_add_explicit(&block->copied, len, memory_order_relaxed);
        to += len;
        off += len;
        n -= len;
    }
    return true;
}

static bool kept_origin(struct zf_source *s, uint64_t *off, struct zf_source **parent_out)
{
    (void)off;
    *parent_out = ((struct kept *)s)->b.parent;
    return true;
}

static const struct zf_source_ops kept_ops = {
    .kind = "kept",
    .pread = kept_pread,
    .origin = kept_origin,
    .want = kept_want,
    .fini = blocks_fini,
};

struct zf_source *zf_kept_new(struct zf_source *parent, uint64_t span, const struct zf_limits *lim,
                              struct zf_err *err)
{
    struct zf_limits any = *lim;

    any.inflate_bytes = UINT64_MAX; /* no limit: nothing is decompressed */
    struct kept *k = blocks_new(sizeof *k, &kept_ops, NULL, parent, parent->size, &any, err);
    if (!k)
        return NULL;
    k->b.span = span < 1u << (GRADES - 1) ? 1u << (GRADES - 1) : span;
    return &k->b.src;
}
