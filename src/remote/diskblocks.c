/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of one object in the cache on disk. */
#include "object.h"

#include <stdlib.h>

#include <zf/base/thread.h>

#include "url.h"

_Static_assert(BLOCK_SIZE == DISKCACHE_BLOCK, "a block in memory is one on disk");

/* The object's identity, once it is final: from the listing, or after the first answer.  It does not
 * change afterwards, so no lock is held while it is used. */
static bool diskblocks_key(struct object *o)
{
    if (atomic_load_explicit(&o->keyed, memory_order_acquire))
        return true;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&o->lock);
    bool keyed = atomic_load_explicit(&o->keyed, memory_order_relaxed);
    const struct place *p = o->shared->place;
    if (!keyed && http_object_exact(&o->was) &&
        (p->immutable || http_object_settled(&o->was, p->etag_is_content_hash))) {
        o->about = (struct diskcache_about){
            .url = o->at.url, .etag = o->was.etag, .version = o->was.version, .size = o->src.size};
        o->key = diskcache_key_of(&o->about);
        /* Queries are none of anybody's business: some are signed. */
        o->shown = o->shown ? o->shown : url_shown(o->at.url);
        o->about.url = o->shown;
        keyed = o->shown != NULL;
        atomic_store_explicit(&o->keyed, keyed, memory_order_release);
    }
    return keyed;
}

bool diskblocks_get(struct object *o, uint64_t k, struct block *b)
{
    struct diskcache *disk = o->shared->disk;

    return disk && diskblocks_key(o) && diskcache_get(disk, &o->key, k, b->data, b->n);
}

void diskblocks_put(struct object *o, uint64_t k, const struct block *b)
{
    struct diskcache *disk = o->shared->disk;

    if (disk && diskblocks_key(o))
        diskcache_put(disk, &o->key, &o->about, k, b->data, b->n);
}
