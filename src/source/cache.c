/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_NONFATAL_OOM 1
#include "cache.h"

#include <pthread.h>
#include <uthash.h>
#include <utlist.h>

struct key {
    uint64_t owner, k;
};

struct entry {
    UT_hash_handle hh;
    struct entry *prev, *next; /* longest unused first */
    struct key key;
    struct zf_block *block;
};

struct zf_cache {
    atomic_uint refs;
    atomic_uint_least64_t owners;
    uint64_t limit;
    pthread_mutex_t lock; /* of all below */
    struct entry *table, *list;
    uint64_t bytes;
};

struct zf_block *zf_block_new(uint64_t n, struct zf_err *err)
{
    struct zf_block *b = n < SIZE_MAX - sizeof *b ? malloc(sizeof *b + (size_t)n) : NULL;

    if (!b) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    atomic_init(&b->refs, 1);
    b->n = (size_t)n;
    return b;
}

static struct zf_block *block_ref(struct zf_block *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void zf_block_unref(struct zf_block **b)
{
    struct zf_block *gone = *b;

    *b = NULL;
    if (gone && atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) == 1) {
        free(gone);
    }
}

struct zf_cache *zf_cache_new(uint64_t bytes, struct zf_err *err)
{
    struct zf_cache *c = calloc(1, sizeof *c);

    if (!c) {
        (void)zf_fail_sys(err, "make a cache");
        return NULL;
    }
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

static void evict(struct zf_cache *c, struct entry *e)
{
    HASH_DEL(c->table, e);
    DL_DELETE(c->list, e);
    c->bytes -= e->block->n;
    zf_block_unref(&e->block);
    free(e);
}

void zf_cache_unref(struct zf_cache **c)
{
    struct zf_cache *gone = *c;

    *c = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    while (gone->list) {
        evict(gone, gone->list);
    }
    (void)pthread_mutex_destroy(&gone->lock);
    free(gone);
}

uint64_t zf_cache_owner(struct zf_cache *c)
{
    return atomic_fetch_add_explicit(&c->owners, 1, memory_order_relaxed);
}

static struct entry *find(struct zf_cache *c, uint64_t owner, uint64_t k)
{
    struct key key = {.owner = owner, .k = k};
    struct entry *e = NULL;

    HASH_FIND(hh, c->table, &key, sizeof key, e);
    return e;
}

struct zf_block *zf_cache_get(struct zf_cache *c, uint64_t owner, uint64_t k)
{
    (void)pthread_mutex_lock(&c->lock);
    struct entry *e = find(c, owner, k);
    struct zf_block *b = e ? block_ref(e->block) : NULL;
    if (e) {
        DL_DELETE(c->list, e);
        DL_APPEND(c->list, e);
    }
    (void)pthread_mutex_unlock(&c->lock);
    return b;
}

/* Being a cache, it may forget: out of memory, or a block larger than all of it. */
void zf_cache_put(struct zf_cache *c, uint64_t owner, uint64_t k, struct zf_block *b)
{
    if (b->n > c->limit) {
        return;
    }
    (void)pthread_mutex_lock(&c->lock);
    struct entry *e = find(c, owner, k) ? NULL : calloc(1, sizeof *e);
    if (e) {
        e->key = (struct key){.owner = owner, .k = k};
        HASH_ADD(hh, c->table, key, sizeof e->key, e);
        if (!e->hh.tbl) {
            free(e);
            e = NULL;
        }
    }
    if (e) {
        e->block = block_ref(b);
        DL_APPEND(c->list, e);
        c->bytes += b->n;
    }
    while (c->bytes > c->limit) {
        evict(c, c->list);
    }
    (void)pthread_mutex_unlock(&c->lock);
}

void zf_cache_drop(struct zf_cache *c, uint64_t owner)
{
    struct entry *e, *next;

    (void)pthread_mutex_lock(&c->lock);
    DL_FOREACH_SAFE(c->list, e, next)
    {
        if (e->key.owner == owner) {
            evict(c, e);
        }
    }
    (void)pthread_mutex_unlock(&c->lock);
}
