/* SPDX-License-Identifier: Apache-2.0 */
#include "object.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/thread.h>
#include <zf/source/gate.h>
#include <zf/source/store_kind.h>

/* Bytes fetched when a file is opened: enough for most headers, and for the end of an archive's directory. */
#define OBJECT_HEAD ((uint64_t)BLOCK_SIZE)
/* Archives up to this size are fetched whole, because their many members are read one by one. */
#define OBJECT_WHOLE (512u << 10)
/* Reads of at most this size, each near the end of the last one, come from a sequential parser and are prefetched. */
#define OBJECT_STEP (32u << 10)
#define OBJECT_AHEAD_MOST ((uint64_t)1 << 20)

/* ---- identity -------------------------------------------------------------------------------- */

uint64_t object_hash(uint64_t seed, const char *text)
{
    static const struct zf_hash_key key = {.k = {0x7a65726f66732072, 0x656d6f746520696e}};

    return zf_hash_of(&key, seed, text, strlen(text));
}

struct zf_identity object_identity_of(const struct object_shared *s, const char *path,
                                      const struct http_object *o)
{
    uint64_t h = object_hash(s->dev, path);

    h = object_hash(h, o->etag);
    h = object_hash(h, o->version);
    return (struct zf_identity){.dev = s->dev,
                                .ino = h,
                                .size = o->size == HTTP_SIZE_UNKNOWN ? 0 : o->size,
                                .mtime = o->mtime,
                                .ctime = o->mtime};
}

void object_shared_unref(struct object_shared *s)
{
    if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) {
        s->place->ops->fini(s->place);
        zf_cache_unref(&s->decoded);
        free(s);
    }
}

/* ---- reads ----------------------------------------------------------------------------------- */

/* Number of bytes to prefetch after this read.  For a parser that reads sequentially in small steps it doubles with each
 * block that the parser enters; for other readers it is 0. */
static uint64_t object_beyond(struct object *o, uint64_t off, size_t n)
{
    uint64_t end = off + n, was = atomic_exchange(&o->stepped_to, end);

    if (n > OBJECT_STEP || off < was || off - was > OBJECT_STEP) {
        atomic_store(&o->ahead, 0);
        return 0;
    }
    uint64_t covered = atomic_load(&o->covered);
    if (end <= covered || (end - 1) / BLOCK_SIZE == (was ? was - 1 : 0) / BLOCK_SIZE)
        return 0;
    uint64_t more = atomic_load(&o->ahead);
    more = more ? more * 2 : BLOCK_SIZE;
    more = more < OBJECT_AHEAD_MOST ? more : OBJECT_AHEAD_MOST;
    atomic_store(&o->ahead, more);
    atomic_store(&o->covered, end + more);
    return more;
}

static bool object_read(struct object *o, const struct iovec *iov, int n_iov, uint64_t off,
                        size_t n, struct zf_err *err)
{
    bool held;

    if (atomic_load_explicit(&o->stale, memory_order_relaxed)) {
        return zf_fail(err, ZF_E_STALE, off,
                       "the object was replaced after it was opened; although it looks unchanged "
                       "again, its bytes may differ");
    }
    if (!zf_gate_enter(o->gate, &held, err))
        return false;
    bool ok = fetch_read(o, iov, n_iov, off, n, object_beyond(o, off, n), err);
    zf_gate_leave(o->gate, held);
    return ok;
}

static bool object_preadv(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                          struct zf_err *err)
{
    struct object *o = (struct object *)s;
    size_t n = 0;

    for (int i = 0; i < n_iov; i++)
        n += iov[i].iov_len;
    bool ok = object_read(o, iov, n_iov, off, n, err);
    atomic_fetch_add_explicit(&o->reads, 1, memory_order_relaxed);
    if (ok) {
        atomic_fetch_add_explicit(&o->bytes, n, memory_order_relaxed);
    } else if (err->code != ZF_E_BUSY) {
        atomic_fetch_add_explicit(&o->errors, 1, memory_order_relaxed);
        err->off = err->off == ZF_OFF_NONE ? off : err->off;
    }
    return ok;
}

static bool object_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    return object_preadv(s, &(struct iovec){.iov_base = buf, .iov_len = n}, 1, off, err);
}

static struct zf_identity object_identity(const struct zf_source *s)
{
    struct object *o = (struct object *)(uintptr_t)s;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&o->lock);
    return object_identity_of(o->shared, o->path, &o->was);
}

static struct zf_shared object_shared(const struct zf_source *s)
{
    const struct object *o = (const struct object *)s;

    return (struct zf_shared){.gate = o->gate, .cache = o->shared->decoded};
}

static struct zf_usage object_usage(const struct zf_source *s)
{
    const struct object *o = (const struct object *)s;

    return (struct zf_usage){
        .reads = atomic_load_explicit(&o->reads, memory_order_relaxed),
        .bytes = atomic_load_explicit(&o->bytes, memory_order_relaxed),
        .errors = atomic_load_explicit(&o->errors, memory_order_relaxed),
    };
}

static bool object_op_unchanged(struct zf_source *s, struct zf_err *err)
{
    size_t bad;

    return object_unchanged(&s, 1, &bad, err);
}

static void object_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    const struct fetch_range r = {.off = off, .len = n};

    /* The kernel does not read ahead in a remote object. */
    if (how == ZF_PREFETCH_ALL || how == ZF_PREFETCH_NOW)
        fetch_want((struct object *)s, &r, 1);
}

static void object_fini(struct zf_source *s)
{
    struct object *o = (struct object *)s;

    free(o->shown);
    free(o->at.url);
    object_shared_unref(o->shared);
    zf_gate_unref(o->gate);
    (void)pthread_mutex_destroy(&o->lock);
    zf_source_fini(s);
    free(o->path);
    free(o);
}

static const struct zf_source_ops object_ops = {
    .kind = "object",
    .far = true,
    .pread = object_pread,
    .preadv = object_preadv,
    .identity = object_identity,
    .shared = object_shared,
    .usage = object_usage,
    .unchanged = object_op_unchanged,
    .want = object_want,
    .fini = object_fini,
};

/* ---- opening --------------------------------------------------------------------------------- */

static struct object *object_new(struct object_shared *s, const char *path, const char *name,
                                 struct zf_err *err)
{
    struct object *o = calloc(1, sizeof *o);
    char *copy = strdup(path);
    struct zf_gate *gate = zf_gate_new();

    if (!o || !copy || !gate || !zf_source_init(&o->src, &object_ops, name, 0, err)) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        free(copy);
        zf_gate_unref(gate);
        free(o);
        return NULL;
    }
    o->path = copy;
    o->gate = gate;
    o->shared = s;
    o->was = HTTP_OBJECT_UNKNOWN;
    atomic_init(&o->checked_at_count, OBJECT_UNCHECKED);
    atomic_init(&o->stepped_to, UINT64_MAX); /* the first read follows no other */
    (void)pthread_mutex_init(&o->lock, NULL);
    o->owner = blockcache_owner(s->cache);
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    if (!s->place->ops->at(s->place, path, &o->at, err)) {
        object_fini(&o->src);
        return NULL;
    }
    o->host = http_host_for(s->place->http, o->at.url);
    if (!o->host) {
        object_fini(&o->src);
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    }
    return o;
}

/* Is it an archive by its name?  Archives are read from the end, so the end is prefetched with the beginning. */
static bool object_is_archive(const char *path)
{
    static const char *const suffix[] = {".pt", ".pth", ".bin", ".ckpt", ".zip"};
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < sizeof suffix / sizeof suffix[0]; i++)
        if (strcmp(dot, suffix[i]) == 0)
            return true;
    return false;
}

/* Opens an object of known size: reads its beginning (and prefetches an archive's end) through the cache, which also checks
 * the listing. */
static bool object_open_sized(struct object *o, struct zf_err *err)
{
    const uint64_t size = o->src.size, end = size < OBJECT_HEAD ? size : OBJECT_HEAD;
    struct fetch_range part[2] = {{.len = end}, {.off = size - end, .len = end}};
    char byte;

    if (size == 0)
        return true;
    atomic_store(&o->covered, end); /* these bytes need no prefetch */
    if (object_is_archive(o->path)) {
        part[0].len = size <= OBJECT_WHOLE ? size : end;
        fetch_want(o, part, 2);
    }
    return fetch_read(o, &(struct iovec){.iov_base = &byte, .iov_len = 1}, 1, 0, 1, 0, err);
}

/* Opens an object with unknown properties: the response to the first range request has them. */
static bool object_open_unknown(struct object *o, struct zf_err *err)
{
    zf_auto(http_reply) struct http_reply r = {.status = 0};
    struct http_ask ask = place_ask(&o->at);

    ask.len = OBJECT_HEAD;
    ask.to_end = true;
    ask.same = o->was.etag[0] ? &o->was : NULL;
    if (!http_do(o->shared->place->http, &ask, &r, err)) {
        if (r.status != 416)
            return false;
        /* 416 means an empty object, but some servers give no size with it. */
        http_reply_fini(&r);
        ask = place_ask(&o->at);
        ask.method = "HEAD";
        if (!http_do(o->shared->place->http, &ask, &r, err))
            return false;
    }
    if (r.object.size == HTTP_SIZE_UNKNOWN)
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "the server does not give the size of the file");
    o->src.size = o->src.stored = r.object.size;
    o->was = r.object;
    object_first_seen(o->shared);
    if (!fetch_has_validator(o, &o->was, err))
        return false;
    atomic_store(&o->covered, r.len);
    fetch_keep(o, r.body, r.len);
    return true;
}

struct zf_source *object_open(struct object_shared *s, const char *path, const char *name,
                              const struct http_object *known, bool later, bool listed,
                              struct zf_err *err)
{
    struct object *o = object_new(s, path, name, err);

    if (!o)
        return NULL;
    o->was = known ? *known : HTTP_OBJECT_UNKNOWN;
    o->listed = listed;
    bool sized = known && known->size != HTTP_SIZE_UNKNOWN;
    if (sized)
        o->src.size = o->src.stored = known->size;
    bool ok = sized ? later || object_open_sized(o, err) : object_open_unknown(o, err);

    if (!ok) {
        err->path[0] = '\0';             /* the store adds the name that the user knows */
        struct zf_source *src = &o->src; /* a fetch may have another reference */

        zf_source_unref(&src);
        return NULL;
    }
    return &o->src;
}

struct object *object_of(struct zf_source *src)
{
    return src->ops == &object_ops ? (struct object *)src : NULL;
}

/* ---- checking for changes -------------------------------------------------------------------- */

static bool object_known_unchanged(const struct object *o)
{
    return o->listed || o->shared->place->immutable ||
           (atomic_load(&o->checked_at_count) == atomic_load(&o->shared->first_seen_count) &&
            !atomic_load(&o->stale));
}

static bool object_due(void *ctx, size_t i)
{
    return !object_known_unchanged(((struct object **)ctx)[i]);
}

static bool object_look(void *ctx, size_t i, struct zf_err *err)
{
    struct object *o = ((struct object **)ctx)[i];
    struct http_ask ask = place_ask(&o->at);
    zf_auto(http_reply) struct http_reply r = {.status = 0};

    ask.method = "HEAD";
    ask.same = &o->was;
    bool ok = http_do(o->shared->place->http, &ask, &r, err);
    if (!ok && err->code == ZF_E_STALE)
        atomic_store_explicit(&o->stale, true, memory_order_relaxed);
    err->path[0] = ok ? err->path[0] : '\0';
    return ok;
}

bool object_unchanged(struct zf_source *const *src, size_t n, size_t *bad_out, struct zf_err *err)
{
    const struct http_many looks = {
        .due = object_due, .ask = object_look, .ctx = (void *)(uintptr_t)src};
    struct object *first = n ? (struct object *)src[0] : NULL;

    return !first || http_each(first->shared->place->http, &looks, n, bad_out, err);
}
