/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <stdlib.h>
#include <sys/mman.h>

#include <zf/base/table.h>
#include <zf/base/thread.h>

struct cache_key {
    uint64_t owner, k;
};

struct entry {
    UT_hash_handle hh;         /* key: `key` */
    struct entry *prev, *next; /* least recently used first */
    struct cache_key key;
    struct block *block;
    uint64_t used; /* value of `loads` when it was read last */
};

struct zf_cache {
    atomic_uint refs;
    atomic_uint_least64_t owners;
    uint64_t limit;
    pthread_mutex_t lock; /* protects all below */
    struct entry *table;  /* uthash */
    struct entry *list;
    uint64_t bytes;         /* of the blocks in the list */
    uint64_t lent;          /* of the blocks being filled */
    uint64_t loads;         /* number of blocks handed out by cache_block */
    struct cache_key giant; /* key of a block larger than the limit */
    struct block *giant_block;
};

/* Large blocks are allocated often, and the kernel maps their pages on first use: with huge pages,
 * where available, these are a few page faults instead of thousands. */
#define HUGE (2u << 20)

static struct block *cache_block_memory(size_t n)
{
    const bool huge = n >= 2 * HUGE;
    void *p = NULL;

    if (posix_memalign(&p, huge ? HUGE : BLOCK_ALIGN, n) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (huge)
        (void)madvise(p, n / HUGE * HUGE, MADV_HUGEPAGE);
#endif
    return p;
}

struct block *block_new(uint64_t n, struct zf_err *err)
{
    struct block *b = n < SIZE_MAX - sizeof *b ? cache_block_memory(sizeof *b + (size_t)n) : NULL;

    if (!b)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    atomic_init(&b->refs, 1);
    atomic_init(&b->copied, 0);
    b->lent = false;
    b->n = b->cap = (size_t)n;
    return b;
}

static struct block *cache_block_ref(struct block *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void block_unref(struct block **b)
{
    struct block *gone = *b;

    *b = NULL;
    if (gone && atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) == 1)
        free(gone);
}

struct zf_cache *zf_cache_new(uint64_t bytes, struct zf_err *err)
{
    struct zf_cache *c = calloc(1, sizeof *c);

    if (!c)
        return zf_null(zf_fail_sys(err, "make a cache"));
    atomic_init(&c->refs, 1);
    atomic_init(&c->owners, 0);
    c->limit = bytes;
    (void)pthread_mutex_init(&c->lock, NULL);
    return c;
}

struct zf_cache *zf_cache_ref(struct zf_cache *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

static void cache_evict(struct zf_cache *c, struct entry *e)
{
    HASH_DEL(c->table, e);
    DL_DELETE(c->list, e);
    c->bytes -= e->block->cap;
    block_unref(&e->block);
    free(e);
}

/* Bytes of it that nobody has copied out yet, about. */
static size_t cache_unread(const struct entry *e)
{
    const size_t copied = atomic_load_explicit(&e->block->copied, memory_order_relaxed);

    return copied < e->block->n ? e->block->n - copied : 0;
}

/* Under the lock. */
static void cache_fit(struct zf_cache *c)
{
    struct entry *e, *next;

    for (e = c->list; e && c->bytes > c->limit; e = next) {
        next = e->next;
        if (cache_unread(e) == 0)
            cache_evict(c, e);
    }
    while (c->bytes > c->limit)
        cache_evict(c, c->list);
}

void zf_cache_unref(struct zf_cache **c)
{
    struct zf_cache *gone = *c;

    *c = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) != 1)
        return;
    while (gone->list)
        cache_evict(gone, gone->list);
    block_unref(&gone->giant_block);
    (void)pthread_mutex_destroy(&gone->lock);
    free(gone);
}

uint64_t cache_owner(struct zf_cache *c)
{
    return atomic_fetch_add_explicit(&c->owners, 1, memory_order_relaxed);
}

static struct entry *cache_find(struct zf_cache *c, uint64_t owner, uint64_t k)
{
    const struct cache_key key = {.owner = owner, .k = k};

    return zf_table_find(c->table, &key, sizeof key);
}

struct block *cache_get(struct zf_cache *c, uint64_t owner, uint64_t k)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    struct entry *e = cache_find(c, owner, k);
    struct block *b = e ? cache_block_ref(e->block) : NULL;
    if (!b && c->giant_block && c->giant.owner == owner && c->giant.k == k)
        b = cache_block_ref(c->giant_block);
    if (e) {
        DL_DELETE(c->list, e);
        DL_APPEND(c->list, e);
        e->used = c->loads;
    }
    return b;
}

/* Can the block's memory be reused for n bytes: large enough, at most twice as large, and not being read? */
static bool cache_is_idle(const struct entry *e, uint64_t n)
{
    return e->block->cap >= n && e->block->cap / 2 <= n &&
           atomic_load_explicit(&e->block->refs, memory_order_acquire) == 1;
}

/* Under the lock: the entry whose memory to reuse for n bytes, or NULL. */
static struct entry *cache_idle(const struct zf_cache *c, uint64_t n)
{
    struct entry *e;

    for (e = c->list; e; e = e->next)
        if (cache_unread(e) == 0 && cache_is_idle(e, n))
            return e;
    e = c->list;
    return e && n > c->limit - c->bytes && cache_is_idle(e, n) ? e : NULL;
}

struct block *cache_block(struct zf_cache *c, uint64_t n, struct zf_err *err)
{
    struct block *b = NULL;

    (void)pthread_mutex_lock(&c->lock);
    struct entry *e = cache_idle(c, n);
    if (e) {
        b = cache_block_ref(e->block);
        cache_evict(c, e);
        b->n = (size_t)n;
        atomic_store_explicit(&b->copied, 0, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&c->lock);
    if (!b && (b = block_new(n, err)) == NULL)
        return NULL;
    (void)pthread_mutex_lock(&c->lock);
    c->lent += b->cap;
    c->loads++;
    b->lent = true;
    (void)pthread_mutex_unlock(&c->lock);
    return b;
}

/* Under the lock. */
static void cache_unlend(struct zf_cache *c, struct block *b)
{
    c->lent -= b->lent ? b->cap : 0;
    b->lent = false;
}

void cache_give_back(struct zf_cache *c, struct block **b)
{
    (void)pthread_mutex_lock(&c->lock);
    cache_unlend(c, *b);
    (void)pthread_mutex_unlock(&c->lock);
    block_unref(b);
}

/* Read-ahead requests the next block before the rest of this one: a block counts as read with this much left. */
#define NEARLY(n) ((n) / 8)
/* A block that was not read while this many other blocks were loaded counts as abandoned. */
#define AGE 16

static bool cache_is_wanted(const struct zf_cache *c, const struct entry *e)
{
    return cache_unread(e) > NEARLY(e->block->n) && c->loads - e->used < AGE;
}

bool cache_is_crowded(struct zf_cache *c, uint64_t n)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    for (const struct entry *e = c->list; e; e = e->next)
        n += cache_is_wanted(c, e) ? e->block->cap : 0;
    return n + c->lent > c->limit;
}

/* Does not add the block if out of memory, or if the block is larger than the cache. */
void cache_put(struct zf_cache *c, uint64_t owner, uint64_t k, struct block *b)
{
    struct zf_err ignored;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    cache_unlend(c, b);
    struct entry *e = b->cap > c->limit || cache_find(c, owner, k) ? NULL : calloc(1, sizeof *e);
    if (e)
        e->key = (struct cache_key){.owner = owner, .k = k};
    if (e && !zf_table_add(c->table, &e->key, sizeof e->key, e, &ignored)) {
        free(e);
        e = NULL;
    }
    if (e) {
        e->block = cache_block_ref(b);
        e->used = c->loads;
        DL_APPEND(c->list, e);
        c->bytes += b->cap;
    }
    cache_fit(c);
}

void cache_put_any(struct zf_cache *c, uint64_t owner, uint64_t k, struct block *b)
{
    if (b->n <= c->limit) {
        cache_put(c, owner, k, b);
        return;
    }
    (void)pthread_mutex_lock(&c->lock);
    struct block *old = c->giant_block;
    c->giant_block = cache_block_ref(b);
    c->giant = (struct cache_key){.owner = owner, .k = k};
    (void)pthread_mutex_unlock(&c->lock);
    block_unref(&old);
}

void cache_drop(struct zf_cache *c, uint64_t owner)
{
    struct entry *e, *next;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    for (e = c->list; e; e = next) {
        next = e->next;
        if (e->key.owner == owner)
            cache_evict(c, e);
    }
    if (c->giant_block && c->giant.owner == owner)
        block_unref(&c->giant_block);
}
