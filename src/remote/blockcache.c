/* SPDX-License-Identifier: Apache-2.0 */
#include "blockcache.h"

#include <errno.h>
#include <stdlib.h>

#include <zf/base/table.h>
#include <zf/base/thread.h>
#include <zf/source/gate.h>

struct blockcache_entry {
    UT_hash_handle hh;
    struct blockcache_key {
        uint64_t owner, k;
    } key;
    struct block block;
    struct blockcache_entry *prev,
        *next;              /* LRU list of unpinned blocks, least recently used first */
    unsigned pins, waiting; /* number of pins; of readers that wait for the data */
    pthread_cond_t moved;   /* per block, so that only its own readers are woken */
    bool loading, kept;     /* being fetched; in the table */
    bool used;              /* a reader has asked for its data; false: prefetched only */
    bool failed;
    struct zf_err *why; /* the failure; NULL: out of memory */
};

static struct blockcache_entry *blockcache_of(struct block *b)
{
    return (struct blockcache_entry *)(void *)((char *)b -
                                               offsetof(struct blockcache_entry, block));
}

struct blockcache {
    pthread_mutex_t lock; /* guards all members below */
    uint64_t limit, bytes, owners;
    struct blockcache_entry *table; /* uthash */
    struct blockcache_entry *list;
};

struct blockcache *blockcache_new(uint64_t bytes, struct zf_err *err)
{
    struct blockcache *c = calloc(1, sizeof *c);

    if (!c)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    c->limit = bytes;
    (void)pthread_mutex_init(&c->lock, NULL);
    return c;
}

/* Frees an unpinned entry; under the lock. */
static void blockcache_free_entry(struct blockcache *c, struct blockcache_entry *e)
{
    if (e->kept) {
        HASH_DEL(c->table, e);
        DL_DELETE(c->list, e);
    }
    c->bytes -= e->block.n;
    (void)pthread_cond_destroy(&e->moved);
    free(e->block.data);
    free(e->why);
    free(e);
}

void blockcache_free(struct blockcache *c)
{
    if (!c)
        return;
    while (c->list)
        blockcache_free_entry(c, c->list);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

uint64_t blockcache_owner(struct blockcache *c)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    return ++c->owners;
}

static struct blockcache_entry *blockcache_find(struct blockcache *c, uint64_t owner, uint64_t k)
{
    const struct blockcache_key key = {.owner = owner, .k = k};

    return zf_table_find(c->table, &key, sizeof key);
}

/* Evicts down to the limit; under the lock.  Pinned blocks are in use and stay, even above the limit. */
static void blockcache_shrink(struct blockcache *c)
{
    while (c->bytes > c->limit && c->list)
        blockcache_free_entry(c, c->list);
}

static struct blockcache_entry *blockcache_new_entry(struct blockcache *c, uint64_t owner,
                                                     uint64_t k, size_t n)
{
    struct blockcache_entry *e = calloc(1, sizeof *e);
    uint8_t *data = malloc(n ? n : 1);
    struct zf_err ignored;

    if (e && data) {
        e->block = (struct block){.data = data, .n = n};
        e->key = (struct blockcache_key){.owner = owner, .k = k};
        e->loading = true;
        e->kept = zf_table_add(c->table, &e->key, sizeof e->key, e, &ignored);
    }
    if (!e || !data || !e->kept) {
        free(e);
        free(data);
        return NULL;
    }
    (void)pthread_cond_init(&e->moved, NULL);
    c->bytes += n;
    blockcache_shrink(c);
    return e;
}

/* The lock is held. */
static void blockcache_pin(struct blockcache *c, struct blockcache_entry *e)
{
    if (e->pins++ == 0)
        DL_DELETE(c->list, e);
}

enum blockcache_find blockcache_claim(struct blockcache *c, uint64_t owner, uint64_t k, size_t n,
                                      struct block **out, bool *ready_out)
{
    enum blockcache_find found = BLOCKCACHE_THERE;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    struct blockcache_entry *e = blockcache_find(c, owner, k);
    if (e) {
        blockcache_pin(c, e);
    } else {
        e = blockcache_new_entry(c, owner, k, n);
        found = e ? BLOCKCACHE_MINE : BLOCKCACHE_NONE;
        if (e)
            e->pins = 1;
    }
    *ready_out = e && !e->loading;
    *out = e ? &e->block : NULL;
    return found;
}

void blockcache_again(struct blockcache *c, struct block *b)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    blockcache_of(b)->pins++;
}

uint64_t blockcache_room(struct blockcache *c)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    uint64_t room = c->limit > c->bytes ? c->limit - c->bytes : 0;
    const struct blockcache_entry *e;
    for (e = c->list; e; e = e->next) {
        if (!e->used)
            break;
        room += e->block.n;
    }
    return room;
}

/* Removes an entry from the table; under the lock. */
static void blockcache_forget(struct blockcache *c, struct blockcache_entry *e)
{
    if (!e->kept)
        return;
    HASH_DEL(c->table, e);
    if (e->pins == 0)
        DL_DELETE(c->list, e);
    e->kept = false;
}

void blockcache_loaded(struct blockcache *c, struct block *b, const struct zf_err *why)
{
    struct blockcache_entry *e = blockcache_of(b);

    (void)pthread_mutex_lock(&c->lock);
    e->loading = false;
    e->failed = why != NULL;
    if (why) {
        e->why = malloc(sizeof *e->why);
        if (e->why)
            *e->why = *why;
        blockcache_forget(c, e);
    }
    if (e->waiting)
        (void)pthread_cond_broadcast(&e->moved);
    (void)pthread_mutex_unlock(&c->lock);
}

bool blockcache_wait(struct blockcache *c, struct block *b, struct zf_err *err)
{
    struct blockcache_entry *e = blockcache_of(b);
    bool given_up = false;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    e->used = true;
    e->waiting++;
    while (e->loading && !given_up) {
        (void)zf_thread_wait(&e->moved, &c->lock,
                             100); /* ms; then check whether the reader was interrupted */
        given_up = e->loading && zf_gate_interrupted();
    }
    e->waiting--;
    bool ok = !e->failed && !given_up;
    if (given_up) {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "the read was interrupted");
        err->sys = EINTR;
    } else if (e->why) {
        *err = *e->why;
    } else if (!ok) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    return ok;
}

void blockcache_unpin(struct blockcache *c, struct block *b)
{
    struct blockcache_entry *e = blockcache_of(b);

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    if (--e->pins == 0) {
        if (e->kept) {
            DL_APPEND(c->list, e);
            blockcache_shrink(c);
        } else {
            blockcache_free_entry(c, e);
        }
    }
}
