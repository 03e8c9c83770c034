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
    /* How often something of the place was seen for the first time: a directory was listed, or a
     * file opened of which no listing had said what it is. */
    atomic_uint_least64_t met;
};
#define OBJECT_UNPROVED UINT64_MAX
struct object {
    struct zf_source src;
    struct object_shared *shared;
    char *path;
    struct place_at at;
    struct zf_gate *gate;
    struct http_host *host;
    uint64_t owner;
    bool listed; /* the listing vouches for it */
    /* Value of `met` at the request that last proved the object unchanged: if nothing was met
     * since, the object was unchanged together with all others and needs no further request.
     * OBJECT_UNPROVED: there was no such request. */
    atomic_uint_least64_t proved;
    atomic_bool stale;
    pthread_mutex_t lock;
    /* under the lock: learns what the listing did not say from the first answer */
    struct http_object was;
    atomic_bool keyed; /* the next three are known (diskblocks.c) */
    struct diskcache_key key;
    struct diskcache_about about;
    char *shown;
    atomic_uint_least64_t reads, bytes, errors;
    atomic_uint_least64_t stepped_to, covered, ahead; /* of a parser that goes through it */
};

static inline void object_met(struct object_shared *s)
{
    (void)atomic_fetch_add(&s->met, 1);
}

#endif
