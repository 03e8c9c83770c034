/* SPDX-License-Identifier: Apache-2.0 */
/* A map knows its pieces in dimensions of its own: neighbouring dimensions of the tensor may be one,
 * those of extent 1 are gone, and flat pieces (ZeRO's partitions) have a single one.  Readers of the
 * list need to know only boxes of the tensor.  So a piece becomes
 *
 *  - a box of the tensor with strides, when its elements are not contiguous in the source; or
 *  - a box of the tensor and a range [first, first + n) of its elements in C order, which are
 *    packed in the source.  A flat piece is a stretch of the box that is the whole tensor.
 *
 * A stretch is cut where its bytes stop following one another in one file, or begin to be lost, and
 * each cut into at most 2 * ndim - 1 boxes: the rest of a row, whole rows, the beginning of a row,
 * and so on outwards. */
#include "sources.h"

#include <stdlib.h>
#include <string.h>

/* Room for the entry that ends a list cut short. */
#define MORE 32
/* Bytes that are in no file of their own (a value out of a pickle) are listed themselves up to
 * here. */
#define TELL_BYTES 16384

struct list {
    struct zf_out *out;
    size_t cap;
    const struct zf_tensor *t;
    enum zf_dtype served;
    uint64_t elem;           /* bytes */
    uint64_t left_out;       /* pieces */
    uint64_t *dim;           /* [ndim + 1] of the tensor; the last one counts bytes */
    uint64_t *start, *count; /* [ndim + 1] of the piece's box */
    uint64_t *stride;        /* [ndim + 1] bytes of the source */
    uint64_t *at, *extent;   /* [ndim] of the entry */
};

/* ---- one entry ------------------------------------------------------------------------------- */

static void sources_put_numbers(struct list *l, const char *key, const uint64_t *v)
{
    zf_out_str(l->out, key);
    for (uint32_t d = 0; d < l->t->ndim; d++) {
        zf_out_add(l->out, ",", d > 0);
        zf_out_dec(l->out, v[d]);
    }
    zf_out_u8(l->out, ']');
}

static void sources_put_number(struct list *l, const char *key, uint64_t v)
{
    zf_out_str(l->out, key);
    zf_out_dec(l->out, v);
}

static void sources_put_text(struct list *l, const char *key, const char *text)
{
    zf_out_str(l->out, key);
    zf_out_json(l->out, text, strlen(text));
}

static void sources_put_bytes(struct list *l, const unsigned char *p, uint64_t n)
{
    zf_out_str(l->out, ",\"data\":\"");
    zf_out_hex(l->out, p, (size_t)n);
    zf_out_u8(l->out, '"');
}

/* Every entry begins with its place in the tensor. */
static void sources_entry_begin(struct list *l, const uint64_t *start, const uint64_t *count)
{
    zf_out_str(l->out, l->out->n > 1 ? ",{" : "{");
    sources_put_numbers(l, "\"start\":[", start);
    sources_put_numbers(l, ",\"count\":[", count);
}

static void sources_entry_end(struct list *l)
{
    if (l->served != l->t->dtype) {
        sources_put_text(l, ",\"dtype\":", zf_dtype_info(l->t->dtype)->suffix);
    }
    zf_out_u8(l->out, '}');
}

static void sources_put_lost(struct list *l, const struct zf_lost *how)
{
    zf_out_str(l->out, ",\"lost\":true");
    if (how->file[0]) {
        sources_put_text(l, ",\"file\":", how->file);
    }
    sources_put_text(l, ",\"why\":", how->why);
}

/* Bytes that are kept in memory, as nothing in a file is equal to them. */
static void sources_put_memory(struct list *l, struct zf_source *s, uint64_t off, uint64_t n)
{
    unsigned char p[TELL_BYTES];
    struct zf_err ignored = {.code = ZF_OK};

    if (s->name[0]) {
        sources_put_text(l, ",\"file\":", s->name);
    }
    if (n <= sizeof p && zf_source_pread(s, p, (size_t)n, off, &ignored)) {
        sources_put_bytes(l, p, n);
    } else {
        zf_out_str(l->out, ",\"made\":true");
    }
}

static bool sources_is_file(const struct zf_source *s)
{
    return s->ops->identity != NULL;
}

/* `bytes`: from the first to behind the last. */
static void sources_put_place(struct list *l, const struct zf_trace *t, uint64_t off,
                              uint64_t bytes)
{
    if (!sources_is_file(t->src)) {
        sources_put_memory(l, t->src, t->off + off, bytes);
        return;
    }
    sources_put_text(l, ",\"file\":", t->src->name);
    sources_put_number(l, ",\"offset\":", t->codec ? t->off : t->off + off);
    sources_put_number(l, ",\"bytes\":", t->codec ? t->packed : bytes);
    if (t->codec) {
        sources_put_text(l, ",\"codec\":", t->codec);
        sources_put_number(l, ",\"skip\":", t->skip + off);
    }
    if (t->swap) {
        sources_put_number(l, ",\"swap\":", t->swap);
    }
}

/* ---- stretches of a box ---------------------------------------------------------------------- */

/* A contiguous range: l->count elements from l->start on, and how to list its bytes. */
struct stretch {
    uint64_t first, n; /* elements */
    const struct zf_trace *trace;
    const struct zf_lost *lost;
    const unsigned char *mem; /* NULL, with the others: zeros */
    bool made;                /* cannot be listed */
};

static void sources_put_stretch(struct list *l, struct stretch s)
{
    uint64_t off = 0;

    while (s.n > 0 && l->out->n <= l->cap) {
        uint64_t n = zf_box_sub(l->t->ndim, l->count, s.first, s.n, l->at, l->extent);

        for (uint32_t d = 0; d < l->t->ndim; d++) {
            l->at[d] += l->start[d];
        }
        sources_entry_begin(l, l->at, l->extent);
        if (s.lost) {
            sources_put_lost(l, s.lost);
        } else if (s.trace) {
            sources_put_place(l, s.trace, off, n * l->elem);
        } else if (s.mem && n * l->elem <= TELL_BYTES) {
            sources_put_bytes(l, s.mem + off, n * l->elem);
        } else {
            zf_out_str(l->out, s.mem || s.made ? ",\"made\":true" : ",\"zero\":true");
        }
        sources_entry_end(l);
        off += n * l->elem;
        s.first += n;
        s.n -= n;
    }
}

/* Elements [first, first + n) of the box are contiguous at e->off + from. */
static void sources_put_packed(struct list *l, const struct zf_extent *e, uint64_t first,
                               uint64_t n)
{
    uint64_t off = e->off;

    if (!e->src) {
        sources_put_stretch(l, (struct stretch){.first = first, .n = n, .mem = e->mem});
        return;
    }
    while (n > 0 && l->out->n <= l->cap) {
        struct zf_lost how;
        uint64_t bytes = n * l->elem, until;
        bool lost = zf_source_lost(e->src, off, &until, &how);

        bytes = until - off < bytes ? until - off : bytes;
        struct zf_trace t = zf_source_trace(e->src, off, bytes);
        bytes = !lost && t.len < bytes ? t.len : bytes;
        /* An element that is cut in two is lost whole. */
        uint64_t k = bytes / l->elem ? bytes / l->elem : 1;
        lost = lost || (bytes < l->elem && zf_source_lost(e->src, off + l->elem - 1, &until, &how));
        sources_put_stretch(l, (struct stretch){.first = first,
                                                .n = k,
                                                .trace = lost || bytes < l->elem ? NULL : &t,
                                                .lost = lost ? &how : NULL,
                                                .made = bytes < l->elem});
        off += k * l->elem;
        first += k;
        n -= k;
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Dimension k of the piece, which covers dimensions [d, to) of the tensor: where the piece is in each.
 * False when it is no box there. */
static bool sources_split_dim(struct list *l, uint32_t d, uint32_t to, const struct zf_extent *e,
                              uint32_t k)
{
    uint64_t inner = e->shape[k], start = e->start[k], size = e->size[k];
    uint64_t stride = e->stride ? e->stride[k] : 0;

    for (; d < to; d++) {
        inner /= l->dim[d];
        l->stride[d] = stride * inner;
        if (start % inner == 0 && size % inner == 0) {
            l->start[d] = start / inner;
            l->count[d] = size / inner;
            if (l->start[d] + l->count[d] > l->dim[d]) {
                return false;
            }
            start = 0;
            size = inner;
        } else {
            if ((start + size - 1) / inner != start / inner) {
                return false;
            }
            l->start[d] = start / inner;
            l->count[d] = 1;
            start %= inner;
        }
    }
    return true;
}

/* Gives the piece's box in the dimensions of the tensor.  Dimensions of extent 1 are no question:
 * whether one goes to its left or right neighbour, the piece is at 0 in it. */
static bool sources_split(struct list *l, const struct zf_extent *e)
{
    uint32_t nd = l->t->ndim + 1, d = 0;

    for (uint32_t k = 0; k < e->nd; k++) {
        uint64_t whole = 1;
        uint32_t to = d;

        while (to < nd && (whole < e->shape[k] || l->dim[to] == 1)) {
            whole *= l->dim[to++];
        }
        if (whole != e->shape[k] || !sources_split_dim(l, d, to, e, k)) {
            return false;
        }
        d = to;
    }
    /* Elements are never taken apart. */
    return d == nd && l->start[nd - 1] == 0 && l->count[nd - 1] == l->elem &&
           (!e->stride || l->elem == 1 || l->stride[nd - 1] == 1);
}

/* A box whose elements are not contiguous. */
static void sources_put_strided(struct list *l, const struct zf_extent *e)
{
    uint64_t span = l->elem, until;
    struct zf_lost how;

    for (uint32_t d = 0; d < l->t->ndim; d++) {
        span += (l->count[d] - 1) * l->stride[d];
    }
    struct zf_trace t = zf_source_trace(e->src, e->off, span);
    sources_entry_begin(l, l->start, l->count);
    if (zf_source_lost(e->src, e->off + span - 1, &until, &how)) {
        sources_put_lost(l, &how);
    } else if (t.len < span || !sources_is_file(t.src)) {
        sources_put_text(l, ",\"file\":", t.src->name);
        zf_out_str(l->out, ",\"made\":true");
    } else {
        sources_put_place(l, &t, 0, span);
        sources_put_numbers(l, ",\"strides\":[", l->stride);
    }
    sources_entry_end(l);
}

static void sources_put_piece(struct list *l, const struct zf_extent *e)
{
    uint64_t n = 1;

    /* In one dimension, without strides: a stretch of the tensor, which need be no box. */
    if (e->nd == 1 && !e->stride && e->start[0] % l->elem == 0 && e->size[0] % l->elem == 0) {
        memcpy(l->count, l->dim, (l->t->ndim + 1ul) * sizeof *l->count);
        memset(l->start, 0, (l->t->ndim + 1ul) * sizeof *l->start);
        sources_put_packed(l, e, e->start[0] / l->elem, e->size[0] / l->elem);
        return;
    }
    if (!sources_split(l, e)) {
        /* No piece is like that today; should one be, nothing wrong is said about it. */
        zf_out_str(l->out, l->out->n > 1 ? ",{\"made\":true" : "{\"made\":true");
        sources_entry_end(l);
        return;
    }
    for (uint32_t d = 0; d < l->t->ndim; d++) {
        n *= l->count[d];
    }
    if (e->stride && e->src) {
        sources_put_strided(l, e);
    } else {
        sources_put_packed(l, e, 0, n);
    }
}

static bool sources_add_piece(void *ctx, const struct zf_extent *e)
{
    struct list *l = ctx;
    size_t before = l->out->n;

    if (l->left_out == 0) {
        sources_put_piece(l, e);
    }
    if (l->left_out > 0 || l->out->n + MORE > l->cap) {
        l->out->n = before;
        l->left_out++;
    }
    return !l->out->bad;
}

void sources_put(const struct zf_tensor *t, enum zf_dtype served, size_t cap, struct zf_out *o)
{
    size_t nd = t->ndim + 1ul;
    struct list l = {
        .out = o, .cap = cap, .t = t, .served = served, .elem = zf_dtype_info(t->dtype)->bytes};
    zf_auto(mem) uint64_t *room = calloc(6 * nd, sizeof *room);

    if (!room) {
        o->bad = true;
        return;
    }
    l.dim = room;
    l.start = room + nd;
    l.count = room + 2 * nd;
    l.stride = room + 3 * nd;
    l.at = room + 4 * nd;
    l.extent = room + 5 * nd;
    memcpy(l.dim, t->shape, t->ndim * sizeof *l.dim);
    l.dim[t->ndim] = l.elem;
    zf_out_u8(o, '[');
    (void)zf_map_each_extent(t->data, sources_add_piece, &l);
    if (l.left_out > 0) {
        zf_out_str(o, o->n > 1 ? ",{\"more\":" : "{\"more\":");
        zf_out_dec(o, l.left_out);
        zf_out_u8(o, '}');
    }
    zf_out_u8(o, ']');
}
