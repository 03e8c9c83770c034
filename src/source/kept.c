/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of another source, kept in the cache of the store: for sources that are cheap by the megabyte only. */
#include <pthread.h>

#include "blocks.h"

struct kept {
    struct blocks b;
    pthread_mutex_t lock; /* held while a block is read, so that no two threads read the same */
};

static struct block *kept_load(struct blocks *b, uint64_t k, struct zf_err *err)
{
    struct kept *s = (struct kept *)b;

    (void)pthread_mutex_lock(&s->lock);
    struct block *block = cache_get(b->cache, b->owner, k);
    if (!block && (block = cache_block(b->cache, blocks_len(b, k), err)) != NULL) {
        if (zf_source_pread(b->parent, block->data, block->n, k * b->span, err)) {
            cache_put(b->cache, b->owner, k, block);
        } else {
            block_unref(&block);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return block;
}

static void kept_fini(struct zf_source *s)
{
    struct kept *k = (struct kept *)s;

    (void)pthread_mutex_destroy(&k->lock);
    blocks_fini(&k->b);
    free(k);
}

static bool kept_origin(struct zf_source *s, uint64_t *off, struct zf_source **parent_out)
{
    (void)off;
    *parent_out = ((struct kept *)s)->b.parent;
    return true;
}

static const struct zf_source_ops kept_ops = {
    .kind = "kept",
    .pread = blocks_pread,
    .origin = kept_origin,
    .fini = kept_fini,
};

struct zf_source *zf_kept_new(struct zf_source *parent, uint64_t span, const struct zf_limits *lim,
                              struct zf_err *err)
{
    struct kept *k = calloc(1, sizeof *k);
    struct zf_limits any = *lim;

    if (!k) {
        (void)zf_fail_sys(err, "keep blocks of a source");
        return NULL;
    }
    any.inflate_bytes = UINT64_MAX; /* nothing grows here */
    if (!blocks_init(&k->b, &kept_ops, parent, parent->size, &any, err)) {
        free(k);
        return NULL;
    }
    k->b.span = span;
    k->b.load = kept_load;
    (void)pthread_mutex_init(&k->lock, NULL);
    return &k->b.src;
}
