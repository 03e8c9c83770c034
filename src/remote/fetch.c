/* SPDX-License-Identifier: Apache-2.0 */
/* Claims blocks of an object, fetches them in as few requests as possible, and copies them out.
 *
 * A fetch holds references to the object and its blocks, so the reader that started it may give up, and the blocks stay for
 * the next one.  A block is ready as soon as its last byte arrives, not at the end of the request, because the header of
 * the response has already proved object and length.  So requests may be long without delaying readers. */
#include "object.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/thread.h>
#include <zf/source/want.h>

/* Maximum number of blocks claimed at once. */
#define FETCH_WINDOW 512
/* A run of blocks is split over FETCH_PARTS connections, into parts of at least and at most this many blocks. */
#define FETCH_PART_LEAST 16
#define FETCH_PART_MOST 128
#define FETCH_PARTS 16
/* A prefetch uses few long requests: with high latency, a connection that gets requests of 1 MiB transfers no more than
 * that per round trip. */
#define FETCH_PARTS_AHEAD 4
#define FETCH_PART_AHEAD 64

struct fetch {
    struct http_turn turn; /* the first member */
    struct object *o;      /* a reference */
    uint64_t k;            /* the first block */
    size_t n, ready;       /* number of blocks; of complete ones */
    uint64_t put;          /* bytes received in this attempt */
    bool sized;            /* the response to this attempt has a length */
    bool guarded;          /* the request has a condition on the object's identity (If-Match) */
    uint64_t seen_before;  /* first_seen_count before the request */
    struct block *block[]; /* pinned */
};

static size_t fetch_block_len(const struct object *o, uint64_t k)
{
    uint64_t left = o->src.size - k * BLOCK_SIZE;

    return left < BLOCK_SIZE ? (size_t)left : BLOCK_SIZE;
}

/* ---- in a pool thread of the client ---------------------------------------------------------- */

bool fetch_has_validator(const struct object *o, const struct http_object *is, struct zf_err *err)
{
    return is->etag[0] || is->version[0] || is->mtime.tv_sec || o->src.size == 0 ||
           o->shared->place->immutable ||
           zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                   "the server sends neither ETag nor Last-Modified for the file, so it could be "
                   "replaced unnoticed while it is read");
}

/* Called at the beginning of a response: completes the object's properties from the first response; properties already
 * known, perhaps from a parallel response, must match. */
static bool fetch_begun(void *ctx, const struct http_object *now, bool sized, struct zf_err *err)
{
    struct fetch *f = ctx;
    struct object *o = f->o;

    f->sized = sized;
    f->put = 0;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&o->lock);
    struct http_object *was = &o->was;
    if (!was->etag[0] && !was->version[0] && !was->mtime.tv_sec) {
        *was = *now;
        was->size = o->src.size;
        object_first_seen(o->shared);
    } else if (!was->etag[0] && now->etag[0]) {
        memcpy(was->etag, now->etag, sizeof was->etag);
        object_first_seen(o->shared);
    }
    bool ok = fetch_has_validator(o, was, err) && http_object_same(was, now, err);
    const uint64_t proved = atomic_load(&o->checked_at_count);
    if (ok && f->guarded && (proved == OBJECT_UNCHECKED || proved < f->seen_before))
        atomic_store(&o->checked_at_count, f->seen_before);
    return ok;
}

static void fetch_put(void *ctx, uint64_t at, const void *p, size_t n)
{
    struct fetch *f = ctx;
    const uint8_t *from = p;

    if (at != f->put)
        return; /* a gap: ignored, so that `put` counts contiguous bytes */
    while (n) {
        size_t k = (size_t)(at / BLOCK_SIZE), into = (size_t)(at % BLOCK_SIZE);
        size_t len = k < f->n && into < f->block[k]->n ? f->block[k]->n - into : 0;

        len = len < n ? len : n;
        if (!len)
            return; /* more bytes than requested */
        /* A retry delivers finished blocks again, which others may be reading by then. */
        if (k >= f->ready)
            memcpy(f->block[k]->data + into, from, len);
        if (f->sized && k == f->ready && into + len == f->block[k]->n) {
            blockcache_loaded(f->o->shared->cache, f->block[k], NULL);
            f->ready++;
        }
        f->put = at += len;
        from += len;
        n -= len;
    }
}

/* Number of blocks that are complete, from this attempt or an earlier one. */
static size_t fetch_filled(const struct fetch *f)
{
    size_t i = f->ready;
    uint64_t end = (uint64_t)i * BLOCK_SIZE;

    while (i < f->n && f->put >= end + f->block[i]->n)
        end += f->block[i++]->n;
    return i;
}

/* Ends a fetch.  Blocks without all their bytes are failed, even if the client reports success (why NULL). */
static void fetch_free(struct fetch *f, const struct zf_err *why)
{
    struct blockcache *cache = f->o->shared->cache;
    struct zf_source *src = &f->o->src;

    const struct zf_err none = {
        .code = ZF_E_IO, .off = ZF_OFF_NONE, .msg = "the answer ended before its last byte"};
    const size_t filled = why ? f->ready : fetch_filled(f);

    for (size_t i = 0; i < f->n; i++) {
        if (i >= f->ready)
            blockcache_loaded(cache, f->block[i], i < filled ? NULL : why ? why : &none);
        blockcache_unpin(cache, f->block[i]);
    }
    zf_source_unref(&src);
    free(f);
}

static void fetch_run(struct http_turn *t)
{
    struct fetch *f = (struct fetch *)t;
    struct object *o = f->o;
    struct http_ask ask = place_ask(&o->at);
    zf_auto(http_reply) struct http_reply r = {.status = 0};
    struct zf_err err = {.code = ZF_OK};

    (void)pthread_mutex_lock(&o->lock);
    struct http_object was = o->was;
    (void)pthread_mutex_unlock(&o->lock);
    was.size = o->src.size;
    f->guarded = http_object_exact(&was);
    f->seen_before = atomic_load(&o->shared->first_seen_count);
    ask.same = &was;
    ask.off = f->k * BLOCK_SIZE;
    for (size_t i = 0; i < f->n; i++)
        ask.len += f->block[i]->n;
    ask.turn = t;
    ask.sink = (struct http_sink){.begin = fetch_begun, .put = fetch_put, .ctx = f};
    const bool ok = http_do(o->shared->place->http, &ask, &r, &err);
    err.path[0] = '\0'; /* the source adds the name that the user knows */
    if (err.code == ZF_E_STALE)
        atomic_store_explicit(&o->stale, true, memory_order_relaxed);
    const size_t there = ok ? fetch_filled(f) : f->ready;
    for (size_t i = 0; i < there; i++)
        diskblocks_put(o, f->k + i, f->block[i]);
    fetch_free(f, ok ? NULL : &err);
}

/* ---- starting a fetch ------------------------------------------------------------------------ */

/* Starts one request for the n claimed blocks from k on. */
static void fetch_begin_part(struct object *o, struct block **block, uint64_t k, size_t n,
                             bool ahead)
{
    struct fetch *f = malloc(sizeof *f + n * sizeof f->block[0]);
    struct zf_err err;

    if (!f) {
        (void)zf_fail(&err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        for (size_t i = 0; i < n; i++)
            blockcache_loaded(o->shared->cache, block[i], &err);
        return;
    }
    *f = (struct fetch){
        .turn = {.host = o->host, .lane = o->owner, .ahead = ahead, .run = fetch_run},
        .o = o,
        .k = k,
        .n = n};
    (void)zf_source_ref(&o->src);
    for (size_t i = 0; i < n; i++) {
        f->block[i] = block[i];
        blockcache_again(o->shared->cache, block[i]);
    }
    http_later(o->shared->place->http, &f->turn);
}

static void fetch_begin(struct object *o, struct block **block, uint64_t k, size_t n, bool ahead)
{
    const size_t parts = ahead ? FETCH_PARTS_AHEAD : FETCH_PARTS;
    size_t part = (n + parts - 1) / parts;
    const size_t least = ahead ? FETCH_PART_AHEAD : FETCH_PART_LEAST;

    part = part < least ? least : part;
    part = part > FETCH_PART_MOST ? FETCH_PART_MOST : part;
    for (size_t i = 0; i < n; i += part)
        fetch_begin_part(o, block + i, k + i, n - i < part ? n - i : part, ahead);
}

/* Claims n blocks from k on and starts fetching the missing ones.  Returns the number claimed, less than n if out of
 * memory. */
static size_t fetch_claim(struct object *o, uint64_t k, size_t n, struct block **block, bool ahead)
{
    size_t i = 0, run = 0;
    uint64_t hits = 0;
    bool waits = false;

    for (; i < n; i++) {
        bool ready;
        enum blockcache_find found = blockcache_claim(o->shared->cache, o->owner, k + i,
                                                      fetch_block_len(o, k + i), &block[i], &ready);

        if (found == BLOCKCACHE_NONE)
            break;
        if (found == BLOCKCACHE_MINE && diskblocks_get(o, k + i, block[i])) {
            blockcache_loaded(o->shared->cache, block[i], NULL);
            found = BLOCKCACHE_THERE;
            ready = true;
        }
        hits += ready;
        waits = waits || !ready;
        if (found == BLOCKCACHE_MINE) {
            run++;
        } else if (run) {
            fetch_begin(o, block + i - run, k + i - run, run, ahead);
            run = 0;
        }
    }
    if (run)
        fetch_begin(o, block + i - run, k + i - run, run, ahead);
    if (!ahead) {
        http_count_hits(o->host, hits);
        if (waits)
            zf_want_note_wait();
    }
    return i;
}

static void fetch_unpin(struct object *o, struct block **block, size_t n)
{
    for (size_t i = 0; i < n; i++)
        blockcache_unpin(o->shared->cache, block[i]);
}

/* Prefetches blocks [k, end), as far as the caches have room. */
static void fetch_ahead(struct object *o, uint64_t k, uint64_t end)
{
    struct block *block[FETCH_WINDOW];

    while (k < end) {
        size_t n = end - k < FETCH_WINDOW ? (size_t)(end - k) : FETCH_WINDOW;

        if (blockcache_room(o->shared->cache) < (uint64_t)n * BLOCK_SIZE ||
            (o->shared->disk && !diskcache_has_room(o->shared->disk)))
            return;
        size_t got = fetch_claim(o, k, n, block, true);
        fetch_unpin(o, block, got);
        if (got < n)
            return;
        k += n;
    }
}

static uint64_t fetch_blocks(const struct object *o)
{
    return o->src.size / BLOCK_SIZE + (o->src.size % BLOCK_SIZE != 0);
}

void fetch_want(struct object *o, const struct fetch_range *range, size_t n)
{
    uint64_t begin = 0, end = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t a = range[i].off / BLOCK_SIZE;
        uint64_t b = (range[i].off + range[i].len + BLOCK_SIZE - 1) / BLOCK_SIZE;

        b = b < fetch_blocks(o) ? b : fetch_blocks(o);
        if (range[i].len == 0 || a >= b)
            continue;
        if (end > begin && a >= begin && a <= end + FETCH_GAP / BLOCK_SIZE) {
            end = b > end ? b : end;
            continue;
        }
        fetch_ahead(o, begin, end);
        begin = a;
        end = b;
    }
    fetch_ahead(o, begin, end);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The current position in an iovec array. */
struct fetch_to {
    const struct iovec *iov;
    int n;
    size_t into;
};

static void fetch_copy_out(struct fetch_to *to, const uint8_t *from, size_t n)
{
    while (n) {
        size_t room = to->iov->iov_len - to->into, len = room < n ? room : n;

        if (len)
            memcpy((uint8_t *)to->iov->iov_base + to->into, from, len);
        to->into += len;
        from += len;
        n -= len;
        if (to->into == to->iov->iov_len && to->n > 1) {
            to->iov++;
            to->n--;
            to->into = 0;
        }
    }
}

/* Reads [off, off + n), at most FETCH_WINDOW blocks, and copies it out. */
static bool fetch_window(struct object *o, struct fetch_to *to, uint64_t off, size_t n,
                         struct zf_err *err)
{
    struct block *block[FETCH_WINDOW];
    uint64_t k = off / BLOCK_SIZE;
    size_t n_blocks = (size_t)((off + n - 1) / BLOCK_SIZE - k) + 1;
    if (o->shared->disk)
        diskcache_wait(o->shared->disk);
    size_t got = fetch_claim(o, k, n_blocks, block, false);
    bool ok = got == n_blocks || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    size_t into = (size_t)(off % BLOCK_SIZE);

    for (size_t i = 0; ok && i < got; i++) {
        ok = blockcache_wait(o->shared->cache, block[i], err);
        if (ok) {
            size_t len = block[i]->n - into;

            len = len < n ? len : n;
            fetch_copy_out(to, block[i]->data + into, len);
            n -= len;
            into = 0;
        }
    }
    fetch_unpin(o, block, got);
    return ok;
}

bool fetch_read(struct object *o, const struct iovec *iov, int n_iov, uint64_t off, size_t n,
                uint64_t beyond, struct zf_err *err)
{
    struct fetch_to to = {.iov = iov, .n = n_iov};

    if (beyond) {
        uint64_t k = (off + n + BLOCK_SIZE - 1) / BLOCK_SIZE;
        uint64_t end = k + beyond / BLOCK_SIZE, most = fetch_blocks(o);

        fetch_ahead(o, k, end < most ? end : most);
    }
    while (n) {
        size_t most = (size_t)FETCH_WINDOW * BLOCK_SIZE - (size_t)(off % BLOCK_SIZE);
        size_t len = n < most ? n : most;

        if (!fetch_window(o, &to, off, len, err))
            return false;
        off += len;
        n -= len;
    }
    return true;
}

void fetch_keep(struct object *o, const void *p, uint64_t n)
{
    const uint8_t *from = p;

    for (uint64_t k = 0; k < fetch_blocks(o) && fetch_block_len(o, k) <= n; k++) {
        struct block *b;
        bool ready;
        enum blockcache_find found =
            blockcache_claim(o->shared->cache, o->owner, k, fetch_block_len(o, k), &b, &ready);

        if (found == BLOCKCACHE_MINE) {
            memcpy(b->data, from, b->n);
            diskblocks_put(o, k, b);
            blockcache_loaded(o->shared->cache, b, NULL);
        }
        n -= fetch_block_len(o, k);
        from += fetch_block_len(o, k);
        if (found != BLOCKCACHE_NONE)
            blockcache_unpin(o->shared->cache, b);
    }
}
