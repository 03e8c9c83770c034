/* SPDX-License-Identifier: Apache-2.0 */
/* An object and what it shares with the others of its store. */
#ifndef REMOTE_OBJECT_INSIDE_H
#define REMOTE_OBJECT_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include <zf/source/source.h>

#include "blockcache.h"
#include "diskcache.h"
#include "place.h"

/* State shared by the objects of a store; counted, because a fetch may outlive its reader. */
struct object_shared {
    atomic_uint refs;
    struct place *place;      /* owned */
    struct blockcache *cache; /* borrowed */
    struct diskcache *disk;   /* borrowed; NULL = none */
    struct zf_cache *decoded; /* owned: what is decompressed */
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

#endif
