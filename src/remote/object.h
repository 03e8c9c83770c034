/* SPDX-License-Identifier: Apache-2.0 */
/* Remote objects as sources, and the store that opens them.  Reads are range requests through the block cache.  Every range
 * is checked to belong to the object that was opened; once the object was seen replaced, all reads fail with
 * ZF_E_STALE. */
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

/* State shared by the objects of a store; reference-counted, because a fetch may outlive its reader. */
struct object_shared {
    atomic_uint refs;
    struct place *place;      /* owned */
    struct blockcache *cache; /* borrowed */
    struct diskcache *disk;   /* borrowed; NULL = none */
    struct zf_cache *decoded; /* owned: decompressed bytes */
    uint64_t dev;             /* device number in the objects' identities */
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
    uint64_t owner; /* the object's number in the block cache */
    bool listed;    /* a listing made by this process describes it exactly */
    /* first_seen_count before the last request that proved the object unchanged.  Equal to the count now: no new file or
     * listing has appeared since, so the final HEAD can be skipped.  OBJECT_UNCHECKED: there was no such request. */
    atomic_uint_least64_t checked_at_count;
    atomic_bool stale;
    pthread_mutex_t lock;
    /* guarded by lock: properties when first seen; the first response adds those missing in the listing */
    struct http_object was;
    atomic_bool keyed; /* the next three are known (diskblocks.c) */
    struct diskcache_key key;
    struct diskcache_about about;
    char *shown;
    atomic_uint_least64_t reads, bytes, errors;
    /* of a sequential parser: end of its last read, end of the prefetched bytes, size of the last prefetch */
    atomic_uint_least64_t stepped_to, covered, ahead;
};

static inline void object_first_seen(struct object_shared *s)
{
    (void)atomic_fetch_add(&s->first_seen_count, 1);
}

/* ---- opening and comparing ------------------------------------------------------------------------------- */

void object_shared_unref(struct object_shared *s);

/* Opens the object at `path`.  known: its properties in a listing, NULL = none; later: sends no request, the first read
 * checks them; listed: the listing was made by this process and describes it exactly.  name is for messages.
 * Errors: ZF_E_NOENT, ZF_E_IO, ZF_E_STALE it differs from `known`. */
struct zf_source *object_open(struct object_shared *s, const char *path, const char *name,
                              const struct http_object *known, bool later, bool listed,
                              struct zf_err *err) ZF_CHECKED;

/* The object of a source, NULL if the source is no object. */
struct object *object_of(struct zf_source *src);

/* Hash of a text; the same in every process. */
uint64_t object_hash(uint64_t seed, const char *text);

/* The identity of an object at that path. */
struct zf_identity object_identity_of(const struct object_shared *s, const char *path,
                                      const struct http_object *o);

/* Sends a HEAD for each object, in parallel, and compares the properties.  Skips objects described by a listing, which is
 * checked itself, and objects checked since the last new file or listing.  On failure *bad_out is the first that
 * differs. */
bool object_unchanged(struct zf_source *const *src, size_t n, size_t *bad_out,
                      struct zf_err *err) ZF_CHECKED;

/* ---- in a cached model (object_note.c) --------------------------------------------------------------------------------------- */

/* Appends the identity of src.
 * Errors: ZF_E_UNSUPPORTED it is no object of a place, or has neither ETag, version nor time; ZF_E_STALE
 * it was replaced, or written so lately that another write could leave the same properties. */
bool object_note_put(struct zf_source *src, struct zf_out *out, struct zf_err *err) ZF_CHECKED;

/* Opens the object of the note without a request; the first read checks it.  listed: its properties in a current listing,
 * or NULL; if they identify it, object_unchanged sends no request.  Errors: ZF_E_STALE it was replaced; ZF_E_FORMAT not a
 * note. */
struct zf_source *object_note_open(struct object_shared *s, const char *path, const char *name,
                                   struct zf_bytes note, const struct http_object *listed,
                                   struct zf_err *err) ZF_CHECKED;

/* A new reference to src, an open object, if it is the one of the note.  Errors: as object_note_open. */
struct zf_source *object_note_same(struct zf_source *src, struct zf_bytes note,
                                   struct zf_err *err) ZF_CHECKED;

/* ---- blocks (diskblocks.c, fetch.c) -------------------------------------------------------------------------------------- */

/* Reads block k of the object from the disk cache into b.  False: it is not cached.  Objects without a strong ETag or a
 * version are never cached, since they could be replaced unnoticed. */
bool diskblocks_get(struct object *o, uint64_t k, struct block *b);
/* Queues block k for the disk cache. */
void diskblocks_put(struct object *o, uint64_t k, const struct block *b);

/* Reads n bytes at off, which must be inside the object, into iov; prefetches up to `beyond` bytes after them. */
bool fetch_read(struct object *o, const struct iovec *iov, int n_iov, uint64_t off, size_t n,
                uint64_t beyond, struct zf_err *err) ZF_CHECKED;

/* Would a replaced object be noticed, by ETag, version or Last-Modified?  Errors: ZF_E_IO it has none of them. */
bool fetch_has_validator(const struct object *o, const struct http_object *is,
                         struct zf_err *err) ZF_CHECKED;

/* Adds the object's first n bytes to the cache, whole blocks only. */
void fetch_keep(struct object *o, const void *p, uint64_t n);

/* Prefetches the blocks of these ranges that are not cached; ranges at most FETCH_GAP apart share a request.  Does not
 * wait; a failure is reported to the reader that needs the block. */
#define FETCH_GAP (128u << 10)
struct fetch_range {
    uint64_t off, len;
};
void fetch_want(struct object *o, const struct fetch_range *range, size_t n);

/* ---- the store (store.c) ----------------------------------------------------------------------------------- */

/* Arguments of store_of_place; NULL = none. */
struct store_config {
    const char *focus;        /* name of the file that the user's URL points at */
    const char *local;        /* -o local_cache=DIR */
    struct blockcache *cache; /* never NULL */
    struct diskcache *disk;
};
/* Makes the store of a place, which it owns, even on failure.  Errors: ZF_E_NOMEM; those of zf_store_dir. */
struct zf_store *store_of_place(struct place *p, const struct store_config *w,
                                const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif
