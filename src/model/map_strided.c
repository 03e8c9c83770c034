/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of another map in another order.  Where they are in that map is a few sizes and strides,
 * so that a tensor of any size costs some hundred bytes; a read takes from that map the longest ranges
 * of which it needs a good part, and puts their bytes where they belong. */
#include <string.h>

#include <zf/base/buffer.h>
#include <zf/base/num.h>

#include "box.h"
#include "map_strided.h"

static const struct map_ops strided_ops;

/* The dimension of an element's bytes is one more. */
#define MAX_DIMS (ZF_STRIDED_DIMS + 1)

/* Rows at least so long are read one by one, shorter ones together with what lies between them; of a file, where one
 * look whether it changed is enough for many, from half a page on. */
#define LONG_ROW (16u << 10)
#define LONG_FILE_ROW (2u << 10)
/* At most so much is read at once to be put in order, */
#define TILE_BYTES ZF_BUFFER_BYTES
/* and a quarter of it must be wanted. */
#define TILE_DENSE 4
/* Ranges that are named for one stretch of the map, before it counts as a whole. */
#define MAX_RANGES 4096

struct strided_map {
    struct zf_map map;
    const struct zf_map *in;
    uint64_t first; /* byte of `in` */
    uint32_t nd;
    const uint64_t *size,
        *stride; /* [nd] the last counts bytes, its stride is 1; strides in bytes */
    /* All of it lies in one piece of a source, which has `first` at byte flat_off; NULL = it does not. */
    struct zf_source *flat;
    uint64_t flat_off;
    struct zf_source *kept; /* the map's bytes, in blocks that are kept; NULL = none are */
};

/* A box of the map: some of each dimension, those of more than one position by their strides. */
struct strided_box {
    const struct strided_map *of;
    uint64_t first; /* byte of `in` */
    uint32_t n;
    uint64_t count[MAX_DIMS], stride[MAX_DIMS]; /* smallest stride first */
    uint64_t out[MAX_DIMS]; /* bytes of the box, packed in C order, to the next */
};

/* The dimensions [0, n) of a box are read together, and `step` positions of dimension n. */
struct strided_tile {
    uint32_t n;
    uint64_t step, span;
};

static void strided_box_init(struct strided_box *b, const struct strided_map *s,
                             const uint64_t *start, const uint64_t *extent)
{
    uint64_t out = 1;

    *b = (struct strided_box){.of = s, .first = s->first};
    for (uint32_t d = s->nd; d-- > 0;) {
        uint32_t at = b->n;

        b->first += start[d] * s->stride[d];
        if (extent[d] > 1) {
            for (; at > 0 && b->stride[at - 1] > s->stride[d]; at--) {
                b->count[at] = b->count[at - 1];
                b->stride[at] = b->stride[at - 1];
                b->out[at] = b->out[at - 1];
            }
            b->count[at] = extent[d];
            b->stride[at] = s->stride[d];
            b->out[at] = out;
            b->n++;
        }
        out *= extent[d];
    }
    if (b->n == 0 || b->stride[0] != 1 || b->out[0] != 1) { /* no run of bytes */
        memmove(b->count + 1, b->count, b->n * sizeof *b->count);
        memmove(b->stride + 1, b->stride, b->n * sizeof *b->stride);
        memmove(b->out + 1, b->out, b->n * sizeof *b->out);
        b->count[0] = b->stride[0] = b->out[0] = 1;
        b->n++;
    }
}

/* most: bytes of a tile. */
static struct strided_tile strided_tile_of(const struct strided_box *b, uint64_t most)
{
    struct strided_tile t = {.n = 1, .step = 1, .span = b->count[0]};
    uint64_t wanted = b->count[0];

    if (wanted >= LONG_ROW)
        return t;
    for (; t.n < b->n; t.n++) {
        const uint64_t stride = b->stride[t.n];
        uint64_t fit = t.span <= most ? 1 + (most - t.span) / stride : 1;

        fit = fit < b->count[t.n] ? fit : b->count[t.n];
        if (fit < 2 || wanted * fit < ((fit - 1) * stride + t.span) / TILE_DENSE)
            break;
        if (fit < b->count[t.n]) {
            t.step = fit;
            t.span += (fit - 1) * stride;
            break;
        }
        t.span += (fit - 1) * stride;
        wanted *= fit;
    }
    return t;
}

static void strided_copy(unsigned char *out, const unsigned char *in, uint64_t n)
{
    switch (n) {
    case 1:
        *out = *in;
        break;
    case 2:
        memcpy(out, in, 2);
        break;
    case 4:
        memcpy(out, in, 4);
        break;
    default:
        memcpy(out, in, n);
    }
}

/* Puts a tile's bytes into the box; `last` positions of dimension t->n. */
static void strided_scatter(const struct strided_box *b, const struct strided_tile *t,
                            uint64_t last, unsigned char *out, const unsigned char *in)
{
    uint64_t at[MAX_DIMS] = {0}, count[MAX_DIMS];
    const uint32_t n = last > 1 ? t->n + 1 : t->n;

    memcpy(count, b->count, n * sizeof *count);
    if (last > 1)
        count[t->n] = last;
    for (;;) {
        uint32_t d = 1;

        strided_copy(out, in, count[0]);
        for (; d < n && ++at[d] == count[d]; d++) {
            at[d] = 0;
            in -= (count[d] - 1) * b->stride[d];
            out -= (count[d] - 1) * b->out[d];
        }
        if (d >= n)
            return;
        in += b->stride[d];
        out += b->out[d];
    }
}

/* Where the next tile of a box is. */
struct strided_walk {
    const struct strided_box *b;
    struct strided_tile t;
    uint64_t at[MAX_DIMS];
    uint64_t from, to; /* bytes of `in`, and of the packed box */
    uint64_t last;     /* positions of dimension t.n in this tile */
};

static void strided_walk_begin(struct strided_walk *w, const struct strided_box *b, uint64_t most)
{
    *w = (struct strided_walk){.b = b, .t = strided_tile_of(b, most), .from = b->first};
    w->last = w->t.step;
}

/* Goes on to the next tile; false: that was the last one. */
static bool strided_walk_next(struct strided_walk *w)
{
    const struct strided_box *b = w->b;

    for (uint32_t d = w->t.n; d < b->n; d++) {
        const uint64_t step = d == w->t.n ? w->t.step : 1;

        if (step < b->count[d] - w->at[d]) {
            w->at[d] += step;
            w->from += step * b->stride[d];
            w->to += step * b->out[d];
            if (w->t.step > 1) {
                const uint64_t left = b->count[w->t.n] - w->at[w->t.n];

                w->last = left < w->t.step ? left : w->t.step;
            }
            return true;
        }
        w->from -= w->at[d] * b->stride[d];
        w->to -= w->at[d] * b->out[d];
        w->at[d] = 0;
    }
    return false;
}

/* Bytes of `in` from the tile's first to its last one. */
static uint64_t strided_walk_span(const struct strided_walk *w)
{
    return w->t.step == 1 ? w->t.span : w->t.span - (w->t.step - w->last) * w->b->stride[w->t.n];
}

static bool strided_read_box(const struct strided_box *b, unsigned char *out, struct zf_err *err)
{
    struct strided_walk w;

    strided_walk_begin(&w, b, TILE_BYTES);
    const bool direct = w.t.n == 1 && w.t.step == 1;
    zf_auto(buffer) struct zf_buffer *tile = direct ? NULL : zf_buffer_take(TILE_BYTES);
    if (!direct && !tile)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    do {
        const uint64_t span = strided_walk_span(&w);
        unsigned char *to = direct ? out + w.to : (unsigned char *)tile->at;

        if (!zf_map_read(b->of->in, to, span, w.from, err))
            return false;
        if (!direct)
            strided_scatter(b, &w.t, w.last, out + w.to, to);
    } while (strided_walk_next(&w));
    return true;
}

/* ---- of one source ---------------------------------------------------------------------------- */

/* The map as a box of it, as which short rows are read. */
static void strided_flat_box(const struct strided_map *s, struct box *out)
{
    *out = (struct box){.src = s->flat, .off = s->flat_off, .nd = s->nd};
    memcpy(out->size, s->size, s->nd * sizeof *s->size);
    memcpy(out->stride, s->stride, s->nd * sizeof *s->stride);
    box_measure(out);
}

static bool strided_read_rows(const struct strided_box *b, unsigned char *out, struct zf_err *err)
{
    uint64_t at[MAX_DIMS] = {0}, from = b->of->flat_off + (b->first - b->of->first);

    for (;;) {
        uint32_t d = 2;
        const bool many = b->n > 1;
        const struct zf_rows rows = {.buf = out,
                                     .n = (size_t)b->count[0],
                                     .pitch = many ? (size_t)b->out[1] : 0,
                                     .off = from,
                                     .step = many ? b->stride[1] : 0,
                                     .count = many ? b->count[1] : 1};

        if (!zf_source_read_rows(b->of->flat, &rows, err))
            return false;
        for (; d < b->n && ++at[d] == b->count[d]; d++) {
            at[d] = 0;
            from -= (b->count[d] - 1) * b->stride[d];
            out -= (b->count[d] - 1) * b->out[d];
        }
        if (d >= b->n)
            return true;
        from += b->stride[d];
        out += b->out[d];
    }
}

/* ---- blocks that are kept --------------------------------------------------------------------- */

bool map_strided_keep(struct zf_map *m, struct sources *t, const struct zf_limits *lim,
                      struct zf_err *err)
{
    struct strided_map *s = (struct strided_map *)m;
    struct box box;
    uint32_t number;

    if (m->ops != &strided_ops)
        return true;
    strided_flat_box(s, &box);
    if (!box_is_kept(&box, lim))
        return true;
    zf_auto(source) struct zf_source *in =
        s->flat ? zf_source_ref(s->flat) : map_source_new(s->in, err);
    if (!in)
        return false;
    if (!s->flat) {
        box.src = in;
        box.off = s->first;
    }
    zf_auto(source) struct zf_source *kept = box_kept_new(&box, lim, err);
    if (!kept || !sources_add(t, kept, &number, err))
        return false;
    s->kept = kept; /* t has a reference */
    return true;
}

/* ---- any ---------------------------------------------------------------------------------------- */

static bool strided_read_now(const struct strided_map *s, void *buf, size_t n, uint64_t off,
                             struct zf_err *err)
{
    const bool rows = s->flat && s->size[s->nd - 1] >= LONG_FILE_ROW;
    uint64_t start[MAX_DIMS], extent[MAX_DIMS];
    unsigned char *out = buf;
    struct strided_box b;

    if (s->flat && !rows) {
        struct box box;

        strided_flat_box(s, &box);
        box.tensor_stride = box.inner;
        box.tensor_shape = box.size;
        return box_gather(&box, off, off + n, out, off, err);
    }
    while (n > 0) {
        const uint64_t k = zf_box_sub(s->nd, s->size, off, n, start, extent);

        strided_box_init(&b, s, start, extent);
        if (rows ? !strided_read_rows(&b, out, err) : !strided_read_box(&b, out, err))
            return false;
        out += k;
        off += k;
        n -= k;
    }
    return true;
}

/* Bytes of a block that cannot be read are no reason to refuse others. */
static bool strided_read(const struct zf_map *m, void *buf, size_t n, uint64_t off,
                         struct zf_err *err)
{
    const struct strided_map *s = (const struct strided_map *)m;

    if (s->kept && zf_source_pread(s->kept, buf, n, off, err))
        return true;
    return (!s->kept || err->code != ZF_E_BUSY) && strided_read_now(s, buf, n, off, err);
}

static struct zf_run strided_at(const struct zf_map *m, uint64_t off)
{
    const struct strided_map *s = (const struct strided_map *)m;
    uint64_t from = s->first, left = 1;

    for (uint32_t d = s->nd; d-- > 0;) {
        const uint64_t i = off % s->size[d];

        off /= s->size[d];
        from += i * s->stride[d];
        left = d == s->nd - 1 ? s->size[d] - i : left;
    }
    struct zf_run run = zf_map_at(s->in, from);
    run.len = run.len < left ? run.len : left;
    return run;
}

/* Names the ranges of a box; if there are more than `most`, all from its first to its last byte is one
 * (whole), or nothing is said. */
static bool strided_box_ranges(const struct strided_box *b, uint64_t most, bool whole,
                               map_each_fn *fn, void *ctx)
{
    struct strided_walk w;
    uint64_t tiles = 1, span = 1;

    strided_walk_begin(&w, b, UINT64_MAX);
    for (uint32_t d = 0; d < b->n; d++) {
        span += (b->count[d] - 1) * b->stride[d];
        if (d >= w.t.n && !zf_mul(tiles, b->count[d], &tiles))
            tiles = UINT64_MAX;
    }
    if (tiles > most)
        return !whole || map_ranges(b->of->in, b->first, span, fn, ctx);
    do {
        if (!map_ranges(b->of->in, w.from, strided_walk_span(&w), fn, ctx))
            return false;
    } while (strided_walk_next(&w));
    return true;
}

static bool strided_ranges(const struct zf_map *m, uint64_t off, uint64_t n, map_each_fn *fn,
                           void *ctx)
{
    const struct strided_map *s = (const struct strided_map *)m;
    uint64_t start[MAX_DIMS], extent[MAX_DIMS];
    struct strided_box b;

    /* Of storage in reach, naming that many short ranges costs more than reading them.  Blocks of one file are loaded in
     * advance; blocks of several are not, because their source borrows the map, which may be freed before it is read. */
    const struct zf_run run = zf_map_at(s->in, s->first);
    if (s->kept && !(run.kind == ZF_RUN_SRC && zf_source_is_far(run.src)))
        return !s->flat || fn(ctx, s->kept, off, n);
    while (n > 0) {
        const uint64_t k = zf_box_sub(s->nd, s->size, off, n, start, extent);

        strided_box_init(&b, s, start, extent);
        if (!strided_box_ranges(&b, MAX_RANGES, false, fn, ctx))
            return false;
        off += k;
        n -= k;
    }
    return true;
}

static bool strided_each(const struct zf_map *m, map_each_fn *fn, void *ctx)
{
    const struct strided_map *s = (const struct strided_map *)m;
    const uint64_t start[MAX_DIMS] = {0};
    struct strided_box b;

    strided_box_init(&b, s, start, s->size);
    return strided_box_ranges(&b, MAX_RANGES, true, fn, ctx);
}

static const struct map_ops strided_ops = {
    .at = strided_at,
    .read = strided_read,
    .each = strided_each,
    .ranges = strided_ranges,
};

/* Fills size and stride [ZF_STRIDED_DIMS + 1] with the dimensions of more than one position, neighbours that are one
 * joined, bytes the last; returns how many there are. */
static uint32_t strided_join(const struct zf_strided *how, uint64_t *size, uint64_t *stride)
{
    uint32_t n = 0;

    for (uint32_t d = 0; d <= how->nd; d++) {
        const bool bytes = d == how->nd;
        const uint64_t z = bytes ? how->elem : how->size[d];
        const uint64_t st = bytes ? 1 : how->stride[d] * how->elem;

        if (z == 1 && !bytes)
            continue;
        if (n > 0 && stride[n - 1] == z * st) {
            size[n - 1] *= z;
            stride[n - 1] = st;
        } else {
            size[n] = z;
            stride[n++] = st;
        }
    }
    return n;
}

/* Does every element lie inside `in`?  *bytes_out: of all of them. */
static bool strided_fits(const struct zf_strided *how, uint64_t in, uint64_t *bytes_out)
{
    uint64_t n = how->elem, last = how->first, step;

    for (uint32_t d = 0; d < how->nd; d++) {
        if (!zf_mul(n, how->size[d], &n))
            return false;
        if (how->size[d] > 0 &&
            (!zf_mul(how->size[d] - 1, how->stride[d], &step) || !zf_add(last, step, &last)))
            return false;
    }
    *bytes_out = n;
    return n == 0 || last < in / how->elem;
}

static struct zf_map *strided_flatten(struct strided_map *s)
{
    const struct zf_run run = zf_map_at(s->in, s->first);
    uint64_t span = 1;

    for (uint32_t d = 0; d < s->nd; d++)
        span += (s->size[d] - 1) * s->stride[d]; /* inside `in` */
    if (run.kind == ZF_RUN_SRC && run.len >= span) {
        s->flat = run.src;
        s->flat_off = run.off;
    }
    return &s->map;
}

struct zf_map *zf_map_strided(struct zf_arena *a, const struct zf_map *in,
                              const struct zf_strided *how, struct zf_err *err)
{
    uint64_t size[MAX_DIMS], stride[MAX_DIMS], bytes;

    if (how->nd > ZF_STRIDED_DIMS || !strided_fits(how, in->size, &bytes)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "elements of a tensor in another order lie outside of it");
        return NULL;
    }
    if (bytes == 0)
        return map_of_zeros(a, 0, err);
    const uint32_t n = strided_join(how, size, stride);
    if (n == 1)
        return zf_map_slice(a, in, how->first * how->elem, bytes, err);
    struct strided_map *s = zf_arena_get(a, 1, sizeof *s, err);
    if (!s)
        return NULL;
    *s = (struct strided_map){
        .map = {.ops = &strided_ops, .size = bytes},
        .in = in,
        .first = how->first * how->elem,
        .nd = n,
        .size = zf_arena_copy(a, size, n, sizeof *size, err),
        .stride = zf_arena_copy(a, stride, n, sizeof *stride, err),
    };
    return s->size && s->stride ? strided_flatten(s) : NULL;
}
