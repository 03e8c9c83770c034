/* SPDX-License-Identifier: Apache-2.0 */
/* A map stores its pieces in its own dimensions: neighbouring dimensions of the tensor may be joined,
 * those of size 1 are left out, and flat pieces (ZeRO's partitions) have only one.  Readers of the
 * list see boxes of the tensor.  So a piece becomes
 *
 *  - a box of the tensor with strides, if its elements are not contiguous in the source; or
 *  - a box of the tensor and a range [first, first + n) of its elements in C order, which are
 *    packed in the source.  A flat piece is a range of the box that is the whole tensor.
 *
 * A range is split where its bytes are no longer contiguous in one file, or where lost bytes start,
 * and each part into at most 2 * ndim - 1 boxes: the rest of a row, whole rows, the beginning of a
 * row, and so on outwards. */
#include <zf/model/origins.h>

#include <stdlib.h>
#include <string.h>

struct zf_origins {
    const struct zf_tensor *t;
    uint64_t elem;           /* bytes */
    uint64_t *dim;           /* [ndim + 1] of the tensor; the last one counts bytes */
    uint64_t *start, *count; /* [ndim + 1] of the piece's box */
    uint64_t *stride;        /* [ndim + 1] bytes of the source */
    uint64_t *at, *extent;   /* [ndim] of a box in that one */
    zf_origin_fn *fn;
    void *ctx;
    uint64_t room[];
};

struct zf_origins *zf_origins_new(const struct zf_tensor *t, struct zf_err *err)
{
    const size_t nd = t->ndim + 1ul;
    struct zf_origins *o = calloc(1, sizeof *o + 6 * nd * sizeof *o->room);

    if (!o)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    o->t = t;
    o->elem = zf_dtype_info(t->dtype)->bytes;
    o->dim = o->room;
    o->start = o->room + nd;
    o->count = o->room + 2 * nd;
    o->stride = o->room + 3 * nd;
    o->at = o->room + 4 * nd;
    o->extent = o->room + 5 * nd;
    memcpy(o->dim, t->shape, t->ndim * sizeof *o->dim);
    o->dim[t->ndim] = o->elem;
    return o;
}

static bool origins_is_file(const struct zf_source *s)
{
    return s->ops->identity != NULL;
}

/* Sets the source of *out: the part of t from `off` on, `bytes` long. */
static void origins_place(struct zf_origin *out, const struct zf_trace *t, uint64_t off,
                          uint64_t bytes)
{
    out->kind = origins_is_file(t->src) ? ZF_ORIGIN_FILE : ZF_ORIGIN_SOURCE;
    out->src = t->src;
    out->off = t->off + off;
    out->bytes = bytes;
    out->swap = t->swap;
    if (t->codec && out->kind == ZF_ORIGIN_FILE) {
        out->off = t->off;
        out->bytes = t->packed;
        out->codec = t->codec;
        out->skip = t->skip + off;
    }
}

/* ---- ranges of a box ------------------------------------------------------------------------- */

/* A contiguous range of elements of the box o->start, o->count, and the source of its bytes. */
struct stretch {
    uint64_t first, n; /* elements */
    const struct zf_trace *trace;
    const struct zf_lost *lost;
    const unsigned char *mem; /* NULL, with the others: zeros */
    bool made;                /* computed bytes, without a source */
};

static bool origins_stretch(struct zf_origins *o, struct stretch s)
{
    bool more = true;

    for (uint64_t off = 0, n; more && s.n > 0; off += n * o->elem, s.first += n, s.n -= n) {
        struct zf_origin one = {.start = o->at, .count = o->extent, .lost = s.lost};

        n = zf_box_sub(o->t->ndim, o->count, s.first, s.n, o->at, o->extent);
        for (uint32_t d = 0; d < o->t->ndim; d++)
            o->at[d] += o->start[d];
        one.bytes = n * o->elem;
        if (s.trace) {
            origins_place(&one, s.trace, off, n * o->elem);
        } else {
            one.mem = s.mem ? s.mem + off : NULL;
            one.kind = s.lost   ? ZF_ORIGIN_LOST
                       : s.made ? ZF_ORIGIN_MADE
                       : s.mem  ? ZF_ORIGIN_MEMORY
                                : ZF_ORIGIN_ZERO;
        }
        more = o->fn(o->ctx, &one);
    }
    return more;
}

/* Elements [first, first + n) of the box are contiguous at e->off. */
static bool origins_packed(struct zf_origins *o, const struct zf_extent *e, uint64_t first,
                           uint64_t n)
{
    uint64_t off = e->off;
    bool more = true;

    if (!e->src)
        return origins_stretch(o, (struct stretch){.first = first, .n = n, .mem = e->mem});
    while (more && n > 0) {
        struct zf_lost how;
        uint64_t bytes = n * o->elem, until;
        bool lost = zf_source_lost(e->src, off, &until, &how);

        bytes = until - off < bytes ? until - off : bytes;
        struct zf_trace t = zf_source_trace(e->src, off, bytes);
        bytes = !lost && t.len < bytes ? t.len : bytes;
        /* An element cut in two is reported as a whole. */
        uint64_t k = bytes / o->elem ? bytes / o->elem : 1;
        lost = lost || (bytes < o->elem && zf_source_lost(e->src, off + o->elem - 1, &until, &how));
        more = origins_stretch(o, (struct stretch){.first = first,
                                                   .n = k,
                                                   .trace = lost || bytes < o->elem ? NULL : &t,
                                                   .lost = lost ? &how : NULL,
                                                   .made = bytes < o->elem});
        off += k * o->elem;
        first += k;
        n -= k;
    }
    return more;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Splits dimension k of the piece into dimensions [d, to) of the tensor, which it joins.  False: the
 * piece is not a box in them. */
static bool origins_split_dim(struct zf_origins *o, uint32_t d, uint32_t to,
                              const struct zf_extent *e, uint32_t k)
{
    uint64_t inner = e->shape[k], start = e->start[k], size = e->size[k];
    uint64_t stride = e->stride ? e->stride[k] : 0;

    for (; d < to; d++) {
        inner /= o->dim[d];
        o->stride[d] = stride * inner;
        if (start % inner == 0 && size % inner == 0) {
            o->start[d] = start / inner;
            o->count[d] = size / inner;
            if (o->start[d] + o->count[d] > o->dim[d])
                return false;
            start = 0;
            size = inner;
        } else {
            if ((start + size - 1) / inner != start / inner)
                return false;
            o->start[d] = start / inner;
            o->count[d] = 1;
            start %= inner;
        }
    }
    return true;
}

/* Computes the piece's box in the dimensions of the tensor.  It does not matter which neighbour a
 * dimension of size 1 was joined to: the piece starts at 0 in it. */
static bool origins_split(struct zf_origins *o, const struct zf_extent *e)
{
    uint32_t nd = o->t->ndim + 1, d = 0;

    for (uint32_t k = 0; k < e->nd; k++) {
        uint64_t whole = 1;
        uint32_t to = d;

        while (to < nd && (whole < e->shape[k] || o->dim[to] == 1))
            whole *= o->dim[to++];
        if (whole != e->shape[k] || !origins_split_dim(o, d, to, e, k))
            return false;
        d = to;
    }
    /* The last dimension counts bytes, and elements are never split. */
    return d == nd && o->start[nd - 1] == 0 && o->count[nd - 1] == o->elem &&
           (!e->stride || o->elem == 1 || o->stride[nd - 1] == 1);
}

/* A box whose elements are not contiguous. */
static bool origins_strided(struct zf_origins *o, const struct zf_extent *e)
{
    struct zf_origin one = {.start = o->start, .count = o->count};
    uint64_t span = o->elem, until;
    struct zf_lost how;

    for (uint32_t d = 0; d < o->t->ndim; d++)
        span += (o->count[d] - 1) * o->stride[d];
    struct zf_trace t = zf_source_trace(e->src, e->off, span);
    if (zf_source_lost(e->src, e->off + span - 1, &until, &how)) {
        one.kind = ZF_ORIGIN_LOST;
        one.lost = &how;
    } else if (t.len < span || !origins_is_file(t.src)) {
        one.kind = ZF_ORIGIN_MADE;
        one.src = t.src;
    } else {
        origins_place(&one, &t, 0, span);
        one.stride = o->stride;
    }
    return o->fn(o->ctx, &one);
}

bool zf_origins_of(struct zf_origins *o, const struct zf_extent *e, zf_origin_fn *fn, void *ctx)
{
    uint64_t n = 1;

    o->fn = fn;
    o->ctx = ctx;
    /* One dimension without strides: a range of the tensor, which need not be a box. */
    if (e->nd == 1 && !e->stride && e->start[0] % o->elem == 0 && e->size[0] % o->elem == 0) {
        memcpy(o->count, o->dim, (o->t->ndim + 1ul) * sizeof *o->count);
        memset(o->start, 0, (o->t->ndim + 1ul) * sizeof *o->start);
        return origins_packed(o, e, e->start[0] / o->elem, e->size[0] / o->elem);
    }
    if (!origins_split(o, e)) {
        /* No kind of piece gets here today; if one did, no wrong source would be reported. */
        return fn(ctx, &(struct zf_origin){.kind = ZF_ORIGIN_MADE});
    }
    for (uint32_t d = 0; d < o->t->ndim; d++)
        n *= o->count[d];
    return e->stride && e->src ? origins_strided(o, e) : origins_packed(o, e, 0, n);
}
