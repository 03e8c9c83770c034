/* SPDX-License-Identifier: Apache-2.0 */
/* A source of a single block: the first read decodes all of it, later reads come from the cache,
 * and a thread that finds another one decoding waits for its result. */
#include <zf/source/decoded.h>

#include <inttypes.h>

#include <zf/source/want.h>

#include "blocks.h"

struct decoded {
    struct blocks b;
    const struct zf_decoder *how;
};

/* Incompressible data grows, but by at most an eighth with any of the codecs. */
static bool decoded_overlong(uint64_t have, uint64_t size)
{
    return have > size && have - size > size / 8 + (64u << 10);
}

static bool decoded_check(struct zf_source *parent, uint64_t size, const struct zf_decoder *how,
                          struct zf_err *err)
{
    uint8_t head[ZF_DECODER_HEAD];
    size_t n = parent->size < sizeof head ? (size_t)parent->size : sizeof head;

    if (decoded_overlong(parent->size, size)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "%" PRIu64 " bytes of %s data for %" PRIu64 " bytes are too many",
                      parent->size, how->kind, size);
        return zf_err_in(err, "%s", parent->name);
    }
    if (!zf_source_pread(parent, head, n, 0, err))
        return false;
    return how->check(head, n, parent->size, size, err) || zf_err_in(err, "%s", parent->name);
}

static struct block *decoded_make(struct decoded *d, struct zf_err *err)
{
    struct zf_source *parent = d->b.parent;
    zf_auto(mem) void *in = malloc(parent->size ? (size_t)parent->size : 1);
    zf_auto(block) struct block *block = block_new(d->b.src.size, err);

    if (!in)
        return zf_null(zf_fail_sys(err, "decompress"));
    if (!block || !zf_source_pread(parent, in, (size_t)parent->size, 0, err))
        return NULL;
    if (!d->how->decode(in, (size_t)parent->size, block->data, block->n, err))
        return zf_null(zf_err_in(err, "%s", parent->name));
    return zf_give(block);
}

static struct block *decoded_load(struct blocks *b, uint64_t k, struct zf_err *err)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&b->lock);
    struct block *block = cache_get(b->cache, b->owner, k);
    if (!block) {
        block = decoded_make((struct decoded *)b, err);
        if (block)
            cache_put_any(b->cache, b->owner, k, block);
    }
    return block;
}

static bool decoded_trace(struct zf_source *s, struct zf_trace *t)
{
    return blocks_trace((struct blocks *)s, ((struct decoded *)s)->how->kind, t);
}

/* Any part of it needs the whole parent. */
static void decoded_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    struct zf_source *parent = ((struct blocks *)s)->parent;

    (void)off, (void)n;
    zf_source_want(parent, 0, parent->size, how);
}

static const struct zf_source_ops decoded_ops = {
    .kind = "decoded",
    .pread = blocks_pread,
    .trace = decoded_trace,
    .want = decoded_want,
    .fini = blocks_fini,
};

struct zf_source *zf_decoded_new(struct zf_source *parent, uint64_t size,
                                 const struct zf_decoder *how, const struct zf_limits *lim,
                                 struct zf_err *err)
{
    if (size > lim->chunk_bytes) {
        (void)zf_fail_limit(err, ZF_LIMIT_chunk_bytes, ZF_OFF_NONE,
                            "%" PRIu64
                            " bytes once decompressed are more than the limit chunk_bytes=%" PRIu64,
                            size, lim->chunk_bytes);
        return zf_null(zf_err_in(err, "%s", parent->name));
    }
    if (!decoded_check(parent, size, how, err))
        return NULL;
    struct decoded *d = blocks_new(sizeof *d, &decoded_ops, decoded_load, parent, size, lim, err);
    if (!d)
        return NULL;
    d->b.span = size ? size : 1;
    d->how = how;
    return &d->b.src;
}
