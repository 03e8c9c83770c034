/* SPDX-License-Identifier: Apache-2.0 */
/* Zstandard frames.  Decompression can start at a frame's beginning only, and a decompressor's state
 * cannot be copied, so one decompressor stays where the last read left it: reading on costs nothing
 * extra.  Going back beyond the cached blocks starts again at the last frame start known before the
 * target; in one long frame that is the beginning, and the blocks passed on the way fill the cache. */
#include "config.h"

#include "kinds.h"

#ifdef HAVE_ZSTD

#include <inttypes.h>
#include <stdio.h>

#include <zf/base/vec.h>
#include <zstd.h>

#include "blocks.h"

#define INPUT (64u << 10)
#define HEADER_MAX 18 /* ZSTD_FRAMEHEADERSIZE_MAX, which is in zstd's unstable part */

/* The offset at which a frame begins. */
struct frame {
    uint64_t in, out; /* in the source, and in the decompressed bytes */
};

/* A decompressor and its position in a source. */
struct stream {
    struct zf_source *from; /* borrowed */
    ZSTD_DStream *z;
    uint64_t out;       /* offset in the decompressed bytes */
    struct frame frame; /* the end of the last complete frame; 0 in a new stream */
    uint64_t in;        /* offset of the next byte to read from `from` */
    bool between;       /* no frame is open */
    ZSTD_inBuffer have;
    uint8_t input[INPUT];
};

struct unzstd {
    struct blocks b;
    /* Under the lock. */
    struct stream *stream; /* at the first byte of block `next`, or NULL */
    uint64_t next;
    zf_vec(struct frame) frames; /* ascending, a block or more apart */
};

static bool zstd_bad_data(const struct stream *s, const char *what, struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_FORMAT, s->in - (s->have.size - s->have.pos), "the zstd data %s", what);
    return zf_err_in(err, "%s", s->from->name);
}

static void zstd_stream_free(struct stream *s)
{
    if (s) {
        (void)ZSTD_freeDStream(s->z);
        free(s);
    }
}

static void zf_auto_stream(struct stream **s)
{
    zstd_stream_free(*s);
}

static struct stream *zstd_stream_new(struct zf_source *from, struct zf_err *err)
{
    struct stream *s = calloc(1, sizeof *s);

    if (s)
        s->z = ZSTD_createDStream();
    if (!s || !s->z) {
        free(s);
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    }
    s->from = from;
    s->between = true;
    s->have.src = s->input;
    return s;
}

static bool zstd_feed(struct stream *s, struct zf_err *err)
{
    uint64_t left = s->from->size - s->in;
    size_t n = left < INPUT ? (size_t)left : INPUT;

    if (!zf_source_pread(s->from, s->input, n, s->in, err))
        return false;
    s->in += n;
    s->have.pos = 0;
    s->have.size = n;
    return true;
}

static bool zstd_drained(const struct stream *s)
{
    return s->have.pos == s->have.size && s->in == s->from->size;
}

/* Decompresses up to n bytes; fewer (*got_out) only at the end of the last frame. */
static bool zstd_stream_read(struct stream *s, void *buf, size_t n, size_t *got_out,
                             struct zf_err *err)
{
    ZSTD_outBuffer out = {.dst = buf, .size = n};

    while (out.pos < n && !(s->between && zstd_drained(s))) {
        if (s->have.pos == s->have.size && !zstd_feed(s, err))
            return false;
        size_t was_in = s->have.pos, was_out = out.pos;
        size_t rc = ZSTD_decompressStream(s->z, &out, &s->have);

        if (ZSTD_isError(rc)) {
            char why[120];

            (void)snprintf(why, sizeof why, "is damaged: %s", ZSTD_getErrorName(rc));
            return zstd_bad_data(s, why, err);
        }
        s->between = rc == 0;
        if (s->between) {
            s->frame =
                (struct frame){.in = s->in - (s->have.size - s->have.pos), .out = s->out + out.pos};
        }
        if (!s->between && s->have.pos == was_in && out.pos == was_out && zstd_drained(s))
            return zstd_bad_data(s, "ends early", err);
    }
    s->out += out.pos;
    *got_out = out.pos;
    return true;
}

/* Checks that nothing follows. */
static bool zstd_stream_ends(struct stream *s, struct zf_err *err)
{
    uint8_t spare;
    size_t got;

    if (!zstd_stream_read(s, &spare, 1, &got, err))
        return false;
    return got == 0 || zstd_bad_data(s, "holds more bytes than announced", err);
}

/* Decompressed size of the first frame; ZSTD_CONTENTSIZE_UNKNOWN where it is not recorded. */
static bool zstd_first_frame(struct zf_source *parent, unsigned long long *size_out,
                             struct zf_err *err)
{
    uint8_t head[HEADER_MAX];
    size_t n = parent->size < sizeof head ? (size_t)parent->size : sizeof head;

    if (!zf_source_pread(parent, head, n, 0, err))
        return false;
    *size_out = ZSTD_getFrameContentSize(head, n);
    if (*size_out == ZSTD_CONTENTSIZE_ERROR) {
        (void)zf_fail(err, ZF_E_FORMAT, 0, "this is not a zstd frame");
        return zf_err_in(err, "%s", parent->name);
    }
    return true;
}

static struct block *zstd_next_block(struct unzstd *u, struct zf_err *err)
{
    zf_auto(block) struct block *block = block_new(blocks_len(&u->b, u->next), err);
    size_t got;

    if (!block || !zstd_stream_read(u->stream, block->data, block->n, &got, err))
        return NULL;
    if (got < block->n)
        return zf_null(zstd_bad_data(u->stream, "holds fewer bytes than announced", err));
    if (u->next + 1 == blocks_count(&u->b) && !zstd_stream_ends(u->stream, err))
        return NULL;
    u->next++;
    return zf_give(block);
}

/* Records a frame's start, if it is at least a block after the last one recorded. */
static bool zstd_keep_frame(struct unzstd *u, struct zf_err *err)
{
    uint64_t last = u->frames.n ? u->frames.at[u->frames.n - 1].out : 0;
    struct frame *f = u->stream->frame.out < last + u->b.span ? NULL : zf_vec_push(&u->frames, err);

    if (f)
        *f = u->stream->frame;
    return f || u->stream->frame.out < last + u->b.span;
}

/* The first block that begins in the frame or after it. */
static uint64_t zstd_frame_block(const struct unzstd *u, const struct frame *f)
{
    return f->out / u->b.span + (f->out % u->b.span != 0);
}

/* Decompresses n bytes and discards them. */
static bool zstd_pass_over(struct unzstd *u, uint64_t n, struct zf_err *err)
{
    zf_auto(mem) uint8_t *spare = malloc(INPUT);
    size_t got = 1;

    if (!spare)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (; n > 0 && got > 0; n -= got)
        if (!zstd_stream_read(u->stream, spare, n < INPUT ? (size_t)n : INPUT, &got, err))
            return false;
    return n == 0 || zstd_bad_data(u->stream, "holds fewer bytes than announced", err);
}

/* Starts at the last known frame before block k, unless the stream is nearer. */
static bool zstd_enter(struct unzstd *u, uint64_t k, struct zf_err *err)
{
    struct frame from = {0, 0};

    for (size_t i = 0; i < u->frames.n && zstd_frame_block(u, &u->frames.at[i]) <= k; i++)
        from = u->frames.at[i];
    uint64_t first = zstd_frame_block(u, &from);
    if (u->stream && u->next <= k && u->next >= first)
        return true;
    zstd_stream_free(u->stream);
    u->stream = zstd_stream_new(u->b.parent, err);
    if (!u->stream)
        return false;
    u->stream->in = from.in;
    u->stream->out = from.out;
    u->next = first;
    if (!zstd_pass_over(u, first * u->b.span - from.out, err)) {
        zstd_stream_free(u->stream);
        u->stream = NULL;
    }
    return u->stream != NULL;
}

/* Moves to block k; blocks passed on the way are put into the cache. */
static struct block *zstd_seek(struct unzstd *u, uint64_t k, struct zf_err *err)
{
    if (!zstd_enter(u, k, err))
        return NULL;
    while (u->stream) {
        zf_auto(block) struct block *made = zstd_next_block(u, err);
        struct block *block = made && zstd_keep_frame(u, err) ? made : NULL;

        if (!block) {
            /* After an error its position is unknown. */
            zstd_stream_free(u->stream);
            u->stream = NULL;
        } else if (u->next > k) {
            made = NULL;
            return block;
        } else {
            cache_put(u->b.cache, u->b.owner, u->next - 1, block);
        }
    }
    return NULL;
}

static struct block *zstd_load(struct blocks *b, uint64_t k, struct zf_err *err)
{
    struct unzstd *u = (struct unzstd *)b;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&b->lock);
    /* Another thread may have made the block while this one waited for the lock. */
    struct block *block = cache_get(b->cache, b->owner, k);
    block = block ? block : zstd_seek(u, k, err);
    return block;
}

static void zstd_fini(struct zf_source *s)
{
    struct unzstd *u = (struct unzstd *)s;

    zstd_stream_free(u->stream);
    zf_vec_fini(&u->frames);
    blocks_fini(s);
}

static bool zstd_trace(struct zf_source *s, struct zf_trace *t)
{
    return blocks_trace((struct blocks *)s, "zstd", t);
}

static bool zstd_recipe(struct zf_source *s, struct zf_recipe *out)
{
    out->kind = &kind_zstd;
    out->parent = ((struct blocks *)s)->parent;
    out->n[0] = s->size;
    return true;
}

static const struct zf_source_ops zstd_ops = {
    .kind = "zstd",
    .pread = blocks_pread,
    .trace = zstd_trace,
    .want = blocks_want,
    .recipe = zstd_recipe,
    .fini = zstd_fini,
};

/* Makes the source without reading anything. */
static struct zf_source *zstd_new(struct zf_source *parent, uint64_t size,
                                  const struct zf_limits *lim, struct zf_err *err)
{
    return blocks_new(sizeof(struct unzstd), &zstd_ops, zstd_load, parent, size, lim, err);
}

struct zf_source *zf_zstd_new(struct zf_source *parent, uint64_t size, const struct zf_limits *lim,
                              struct zf_err *err)
{
    unsigned long long said;

    if (!zstd_first_frame(parent, &said, err))
        return NULL;
    if (said != ZSTD_CONTENTSIZE_UNKNOWN && said > size) {
        (void)zf_fail(err, ZF_E_FORMAT, 0, "the zstd frame holds %llu bytes, expected %" PRIu64,
                      said, size);
        return zf_null(zf_err_in(err, "%s", parent->name));
    }
    return zstd_new(parent, size, lim, err);
}

static bool zstd_too_large(const struct zf_source *parent, uint64_t max, struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                  "the zstd data holds more than the %" PRIu64 " bytes allowed here", max);
    return zf_err_in(err, "%s", parent->name);
}

bool zf_zstd_size(struct zf_source *parent, uint64_t max_bytes, const struct zf_limits *lim,
                  uint64_t *size_out, struct zf_err *err)
{
    uint64_t max = max_bytes < lim->inflate_bytes ? max_bytes : lim->inflate_bytes, n = 0;
    unsigned long long said;

    if (!zstd_first_frame(parent, &said, err))
        return false;
    if (said != ZSTD_CONTENTSIZE_UNKNOWN && said > max)
        return zstd_too_large(parent, max, err);
    zf_auto(stream) struct stream *s = zstd_stream_new(parent, err);
    zf_auto(mem) uint8_t *piece = malloc(INPUT);
    size_t got = INPUT;
    if (!s || !piece)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    while (got == INPUT) {
        if (!zstd_stream_read(s, piece, INPUT, &got, err))
            return false;
        n += got;
        if (n > max)
            return zstd_too_large(parent, max, err);
    }
    *size_out = n;
    return true;
}

#else

static struct zf_source *zstd_without(const struct zf_source *parent, struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                  "the data is compressed with zstd, which this zerofs was built without");
    return zf_null(zf_err_in(err, "%s", parent->name));
}

struct zf_source *zf_zstd_new(struct zf_source *parent, uint64_t size, const struct zf_limits *lim,
                              struct zf_err *err)
{
    (void)size, (void)lim;
    return zstd_without(parent, err);
}

static struct zf_source *zstd_new(struct zf_source *parent, uint64_t size,
                                  const struct zf_limits *lim, struct zf_err *err)
{
    (void)size, (void)lim;
    return zstd_without(parent, err);
}

bool zf_zstd_size(struct zf_source *parent, uint64_t max_bytes, const struct zf_limits *lim,
                  uint64_t *size_out, struct zf_err *err)
{
    (void)max_bytes, (void)lim, (void)size_out;
    return zstd_without(parent, err);
}

#endif

static struct zf_source *zstd_make(struct zf_remake *r, struct zf_err *err)
{
    return kind_has_parent(r, err) ? zstd_new(r->parent, r->n[0], r->lim, err) : NULL;
}

const struct zf_source_kind kind_zstd = {.name = "zstd", .make = zstd_make};
