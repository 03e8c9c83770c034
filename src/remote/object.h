/* SPDX-License-Identifier: Apache-2.0 */
/* Remote objects as sources, and the store that opens them: ranged reads through the block cache.  Every range is proved
 * to belong to the object that was opened; once another was seen, all reads fail with ZF_E_STALE. */
#ifndef REMOTE_OBJECT_H
#define REMOTE_OBJECT_H

#include <pthread.h>
#include <stdatomic.h>

#include <zf/base/bytes.h>
#include <zf/base/out.h>
#include <zf/source/source.h>
#include <zf/source/store.h>

#include "blockcache.h"
#include "diskcache.h"
#include "place.h"

/* State shared by the objects of a store; counted, because a fetch may outlive its reader. */
struct object_shared {
    atomic_uint refs;
    struct place *place;      /* owned */
    struct blockcache *cache; /* borrowed */
    struct diskcache *disk;   /* borrowed; NULL = none */
    struct zf_cache *decoded; /* owned: decompressed bytes */
    uint64_t dev;             /* of identities */
    /* Files and listings of the place that were seen for the first time: a directory was listed, or a file opened
     * that no listing describes. */
    atomic_uint_least64_t first_seen_count;
};
#define OBJECT_UNCHECKED UINT64_MAX
struct object {
    struct zf_source src;
    struct object_shared *shared;
    char *path;
    struct place_at at;
    struct zf_gate *gate;
    struct http_host *host;
    uint64_t owner;
    bool listed; /* a listing of now describes it exactly */
    /* first_seen_count before the last request that proved the object unchanged.  Equal to the count now: no new file or
     * listing has appeared since, so the final HEAD can be skipped.  OBJECT_UNCHECKED: there was no such request. */
    atomic_uint_least64_t checked_at_count;
    atomic_bool stale;
    pthread_mutex_t lock;
    /* under the lock: as it was first seen; the first answer adds what the listing does not say */
    struct http_object was;
    atomic_bool keyed; /* the next three are known (diskblocks.c) */
    struct diskcache_key key;
    struct diskcache_about about;
    char *shown;
    atomic_uint_least64_t reads, bytes, errors;
    atomic_uint_least64_t stepped_to, covered, ahead; /* of a parser that goes through it */
};

static inline void object_first_seen(struct object_shared *s)
{
    (void)atomic_fetch_add(&s->first_seen_count, 1);
}

/* ---- opening and comparing ------------------------------------------------------------------------------- */

void object_shared_unref(struct object_shared *s);

/* Opens the object at `path`.  known: its properties by a listing, NULL = none; later: without a request, the first
 * read checks them; listed: the listing is of now, and describes it exactly.  name is for messages.
 * Errors: ZF_E_NOENT, ZF_E_IO, ZF_E_STALE it is another than `known`. */
struct zf_source *object_open(struct object_shared *s, const char *path, const char *name,
                              const struct http_object *known, bool later, bool listed,
                              struct zf_err *err) ZF_CHECKED;

/* Is it a source of this kind?  Else NULL. */
struct object *object_of(struct zf_source *src);

/* A hash that is the same in every process. */
uint64_t object_hash(uint64_t seed, const char *text);

/* The identity of an object at that path. */
struct zf_identity object_identity_of(const struct object_shared *s, const char *path,
                                      const struct http_object *o);

/* Asks for the heads of all of them, many at once, and compares.  Passed over: objects of a listing that is looked at
 * again itself, and those checked since all of the place was seen.  On failure *bad_out is the first that differs. */
bool object_unchanged(struct zf_source *const *src, size_t n, size_t *bad_out,
                      struct zf_err *err) ZF_CHECKED;

/* ---- in a cached model (object_note.c) --------------------------------------------------------------------------------------- */

/* Appends the identity of src.
 * Errors: ZF_E_UNSUPPORTED it is no object of a place, or has neither ETag, version nor time; ZF_E_STALE
 * it was replaced, or written so lately that another write could leave the same properties. */
bool object_note_put(struct zf_source *src, struct zf_out *out, struct zf_err *err) ZF_CHECKED;

/* Opens the object of the note without a request; the first read proves it.  listed: its properties in a listing of
 * now, or NULL; if they identify it, object_unchanged sends no request.  Errors: ZF_E_STALE it is another;
 * ZF_E_FORMAT this is no note. */
struct zf_source *object_note_open(struct object_shared *s, const char *path, const char *name,
                                   struct zf_bytes note, const struct http_object *listed,
                                   struct zf_err *err) ZF_CHECKED;

/* A reference to src, an open object, if it is that of the note.  Errors: as object_note_open. */
struct zf_source *object_note_same(struct zf_source *src, struct zf_bytes note,
                                   struct zf_err *err) ZF_CHECKED;

/* ---- blocks (diskblocks.c, fetch.c) -------------------------------------------------------------------------------------- */

/* Is block k of the object on disk?  Then b holds it.  Never for an object that could be replaced unnoticed: one without a
 * strong ETag or a version. */
bool diskblocks_get(struct object *o, uint64_t k, struct block *b);
/* Hands it to the cache on disk, which writes it later. */
void diskblocks_put(struct object *o, uint64_t k, const struct block *b);

/* Reads n bytes at off, which lie in the object, into iov; up to `beyond` bytes more are fetched
 * and not waited for. */
bool fetch_read(struct object *o, const struct iovec *iov, int n_iov, uint64_t off, size_t n,
                uint64_t beyond, struct zf_err *err) ZF_CHECKED;

/* Would a replaced object be noticed: is there an ETag, a version or Last-Modified?  Errors: ZF_E_IO, no. */
bool fetch_has_validator(const struct object *o, const struct http_object *is,
                         struct zf_err *err) ZF_CHECKED;

/* Puts the object's first n bytes into the cache, as far as they make whole blocks. */
void fetch_keep(struct object *o, const void *p, uint64_t n);

/* Fetches the blocks of these ranges that are not in memory, without waiting: neighbours with a gap of at most
 * FETCH_GAP in one request.  A reader gets the failure. */
#define FETCH_GAP (128u << 10)
struct fetch_range {
    uint64_t off, len;
};
void fetch_want(struct object *o, const struct fetch_range *range, size_t n);

/* ---- the store (store.c) ----------------------------------------------------------------------------------- */

/* Clients and caches that a store reads through; NULL = none. */
struct store_ways {
    const char *focus; /* the one file that is meant; its name in messages is then the address */
    const char *local; /* -o local_cache=DIR */
    struct blockcache *cache; /* never NULL */
    struct diskcache *disk;
};
/* Takes the place, also on failure.  Errors: ZF_E_NOMEM; of zf_store_dir. */
struct zf_store *store_of_place(struct place *p, const struct store_ways *w,
                                const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif
