/* SPDX-License-Identifier: Apache-2.0 */
/* Random access into a raw deflate stream.  At every block boundary, inflateCopy saves the whole
 * state of the decompressor (with its window, about 40 KiB); any block can then be decompressed
 * again from the state at its start.  Unlike restarting at deflate's own block boundaries, this
 * does not depend on how many of those a stream has. */
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include <zf/base/crc.h>

#include "blocks.h"
#include "kinds.h"

#define INPUT (64u << 10)
/* The most that deflate can expand: 258 bytes from 2 bits. */
#define RATIO_MAX 1032

/* A decompressor at a block's first byte.  Must not be moved: zlib keeps its address. */
struct point {
    z_stream z;
    uint64_t in; /* offset in the parent of the next input byte */
};

struct inflater {
    struct blocks b;
    uint32_t crc_want;
    _Atomic uint64_t
        frontier;    /* blocks before this one were decompressed once: their points exist */
    atomic_bool bad; /* the CRC is wrong: every read fails from then on */
    /* Under the lock, which moving the frontier takes, too. */
    uint32_t crc;         /* of all blocks before the frontier */
    struct point **point; /* [count]; each written once, before the frontier passes */
};

static bool inflate_bad_stream(const struct point *p, const char *what, struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, p->in - p->z.avail_in, "the compressed data %s", what);
}

static void inflate_point_free(struct point *p)
{
    if (p) {
        (void)inflateEnd(&p->z);
        free(p);
    }
}

static void zf_auto_point(struct point **p)
{
    inflate_point_free(*p);
}

static struct point *inflate_point_new(struct zf_err *err)
{
    struct point *p = calloc(1, sizeof *p);

    if (!p || inflateInit2(&p->z, -MAX_WBITS) != Z_OK) {
        free(p);
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    }
    return p;
}

/* `from` has no pending input. */
static struct point *inflate_point_copy(struct point *from, struct zf_err *err)
{
    struct point *p = calloc(1, sizeof *p);

    if (!p || inflateCopy(&p->z, &from->z) != Z_OK) {
        free(p);
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    }
    p->in = from->in;
    return p;
}

/* Reads more input.  None left is no error here: zlib may still hold output. */
static bool inflate_feed(struct inflater *f, struct point *p, uint8_t *input, struct zf_err *err)
{
    uint64_t left = f->b.parent->size - p->in;
    size_t n = left < INPUT ? (size_t)left : INPUT;

    if (!zf_source_pread(f->b.parent, input, n, p->in, err))
        return false;
    p->z.next_in = input;
    p->z.avail_in = (uInt)n;
    p->in += n;
    return true;
}

/* Runs the decompressor until its output is full (Z_OK) or the stream ends (Z_STREAM_END). */
static bool inflate_run(struct inflater *f, struct point *p, uint8_t *input, int *rc_out,
                        struct zf_err *err)
{
    int rc = Z_OK;

    while (rc == Z_OK && p->z.avail_out > 0) {
        if (p->z.avail_in == 0 && !inflate_feed(f, p, input, err))
            return false;
        rc = inflate(&p->z, Z_NO_FLUSH);
    }
    *rc_out = rc;
    if (rc == Z_BUF_ERROR)
        return inflate_bad_stream(p, "ends early", err);
    if (rc == Z_MEM_ERROR)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    return rc == Z_OK || rc == Z_STREAM_END || inflate_bad_stream(p, "is damaged", err);
}

/* Checks that the stream ends exactly at the last compressed byte. */
static bool inflate_at_end(struct inflater *f, struct point *p, uint8_t *input, int rc,
                           struct zf_err *err)
{
    uint8_t spare;

    if (rc != Z_STREAM_END) {
        p->z.next_out = &spare;
        p->z.avail_out = 1;
        if (!inflate_run(f, p, input, &rc, err))
            return false;
        if (p->z.avail_out == 0)
            return inflate_bad_stream(p, "inflates to more bytes than announced", err);
    }
    return p->in - p->z.avail_in == f->b.parent->size ||
           inflate_bad_stream(p, "ends too early", err);
}

/* Decompresses block k from the point at its start; the point moves to its end. */
static struct block *inflate_make(struct inflater *f, struct point *p, uint64_t k,
                                  struct zf_err *err)
{
    zf_auto(mem) uint8_t *input = malloc(INPUT);
    zf_auto(block) struct block *block = block_new(blocks_len(&f->b, k), err);
    int rc;

    if (!block)
        return NULL;
    if (!input)
        return zf_null(zf_fail_sys(err, "decompress"));
    bool last = k + 1 == blocks_count(&f->b);
    p->z.next_out = block->data;
    p->z.avail_out = (uInt)block->n;
    if (!inflate_run(f, p, input, &rc, err))
        return NULL;
    if (p->z.avail_out > 0 || (rc == Z_STREAM_END && !last))
        return zf_null(inflate_bad_stream(p, "inflates to fewer bytes than announced", err));
    if (last && !inflate_at_end(f, p, input, rc, err))
        return NULL;
    /* Input that was read too far is read again from here. */
    p->in -= p->z.avail_in;
    p->z.avail_in = 0;
    p->z.next_in = NULL;
    return zf_give(block);
}

static struct block *inflate_bad_crc(const struct inflater *f, struct zf_err *err)
{
    return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the decompressed bytes do not have the CRC-32 %08" PRIx32
                           " that was announced",
                           f->crc_want));
}

/* Decompresses the frontier's block, saves a point after it and checks the CRC after the last.  The
 * lock is held.  A failure changes nothing, so the same read fails in the same way again. */
static struct block *inflate_advance(struct inflater *f, uint64_t k, struct zf_err *err)
{
    zf_auto(point) struct point *p =
        k ? inflate_point_copy(f->point[k], err) : inflate_point_new(err);
    zf_auto(block) struct block *block = p ? inflate_make(f, p, k, err) : NULL;

    if (!block)
        return NULL;
    const uint32_t crc = zf_crc32(f->crc, block->data, block->n);
    if (k + 1 < blocks_count(&f->b)) {
        f->point[k + 1] = zf_give(p);
    } else if (crc != f->crc_want) {
        atomic_store_explicit(&f->bad, true, memory_order_relaxed);
        cache_drop(f->b.cache, f->b.owner);
        return inflate_bad_crc(f, err);
    }
    f->crc = crc;
    atomic_store_explicit(&f->frontier, k + 1, memory_order_release);
    return zf_give(block);
}

/* Decompresses a block before the frontier, from a copy of its point; any number of threads at once. */
static struct block *inflate_again(struct inflater *f, uint64_t k, struct zf_err *err)
{
    zf_auto(point) struct point *p =
        k ? inflate_point_copy(f->point[k], err) : inflate_point_new(err);

    return p ? inflate_make(f, p, k, err) : NULL;
}

static struct block *inflate_load(struct blocks *b, uint64_t k, struct zf_err *err)
{
    struct inflater *f = (struct inflater *)b;
    struct block *block = NULL;

    if (atomic_load_explicit(&f->bad, memory_order_relaxed))
        return inflate_bad_crc(f, err);
    if (k < atomic_load_explicit(&f->frontier, memory_order_acquire))
        return inflate_again(f, k, err);
    (void)pthread_mutex_lock(&b->lock);
    uint64_t at = atomic_load_explicit(&f->frontier, memory_order_relaxed);
    bool passed = k < at;
    for (; at <= k; at++) {
        block_unref(&block);
        block = inflate_advance(f, at, err);
        if (!block)
            break;
    }
    (void)pthread_mutex_unlock(&b->lock);
    return passed ? inflate_again(f, k, err) : block;
}

/* Checked before cached blocks are used: another thread may have cached one while the CRC was found
 * wrong. */
static bool inflate_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                          struct zf_err *err)
{
    const struct inflater *f = (const struct inflater *)s;

    if (atomic_load_explicit(&f->bad, memory_order_relaxed)) {
        (void)inflate_bad_crc(f, err);
        return false;
    }
    return blocks_pread(s, buf, n, off, err);
}

static void inflate_fini(struct zf_source *s)
{
    struct inflater *f = (struct inflater *)s;

    for (uint64_t k = 0; f->point && k < blocks_count(&f->b); k++)
        inflate_point_free(f->point[k]);
    free(f->point);
    blocks_fini(s);
}

static bool inflate_trace(struct zf_source *s, struct zf_trace *t)
{
    return blocks_trace((struct blocks *)s, "deflate", t);
}

static bool inflate_recipe(struct zf_source *s, struct zf_recipe *out)
{
    const struct inflater *f = (const struct inflater *)s;

    out->kind = &kind_inflate;
    out->parent = f->b.parent;
    out->n[0] = s->size;
    out->n[1] = f->crc_want;
    return true;
}

static struct zf_source *inflate_remake(struct zf_remake *r, struct zf_err *err)
{
    return kind_has_parent(r, err)
               ? zf_inflate_new(r->parent, r->n[0], (uint32_t)r->n[1], r->lim, err)
               : NULL;
}

const struct zf_source_kind kind_inflate = {.name = "inflate", .make = inflate_remake};

static const struct zf_source_ops inflate_ops = {
    .kind = "inflate",
    .pread = inflate_pread,
    .trace = inflate_trace,
    .want = blocks_want,
    .recipe = inflate_recipe,
    .fini = inflate_fini,
};

struct zf_source *zf_inflate_new(struct zf_source *parent, uint64_t size, uint32_t crc,
                                 const struct zf_limits *lim, struct zf_err *err)
{
    /* Checked before memory is allocated. */
    if (size / RATIO_MAX > parent->size) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "%" PRIu64 " compressed bytes cannot inflate to %" PRIu64, parent->size,
                      size);
        return zf_null(zf_err_in(err, "%s", parent->name));
    }
    struct inflater *f = blocks_new(sizeof *f, &inflate_ops, inflate_load, parent, size, lim, err);
    if (!f)
        return NULL;
    f->point = calloc((size_t)blocks_count(&f->b) + 1, sizeof(struct point *));
    if (!f->point) {
        (void)zf_fail_sys(err, "make an inflating source");
        inflate_fini(&f->b.src);
        return NULL;
    }
    f->crc_want = crc;
    f->crc = 0;
    return &f->b.src;
}
