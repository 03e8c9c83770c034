/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces that are elements of another tensor.  A part refers to that tensor; a range or a box copies the pieces it has so
 * far. */
#include <string.h>

#include <zf/base/num.h>

#include "box.h"
#include "draft.h"

/* ---- a part ------------------------------------------------------------------------------- */

bool zf_draft_part(struct zf_draft *d, uint64_t first, uint64_t n, struct zf_draft *of,
                   uint64_t of_first, struct zf_err *err)
{
    d = draft_data(d);
    of = draft_data(of);
    if (!draft_run_inside(d, &(struct run){.size = d->shape, .first = first, .n = n}, err))
        return false;
    /* Only an older tensor can be referred to, so there are no cycles, and the order of creation is an order for the seal. */
    if (of->number >= d->number || of->dtype != d->dtype || !zf_within(of_first, n, of->elems))
        return draft_refuse(d, err, "has a part that is not inside an earlier tensor of its type");
    if (d->kind == ZF_DRAFT_BOX)
        return draft_refuse(d, err, "is made both of parts of other tensors and of boxes");
    uint64_t off = of_first * zf_dtype_info(d->dtype)->bytes;
    struct piece *p = n > 0 ? draft_run_flat(d, first, n, 0, off, err) : NULL;
    if (p) {
        p->of = of;
        d->parts = true;
    }
    return p || n == 0;
}

/* ---- a range as a box --------------------------------------------------------------------- */

/* Adds a run of the map of `of` to d as r, a run of a box. */
static bool of_stretch_run(struct zf_draft *d, struct run *r, const struct zf_draft *of,
                           const struct zf_run *from, struct zf_err *err)
{
    struct zf_source *src = from->kind == ZF_RUN_SRC ? from->src : NULL;
    struct sources *known = d->b->sources;
    struct zf_lost how;
    uint64_t until;
    uint32_t number;

    if (from->kind == ZF_RUN_MADE || (src && src == known->at[SOURCES_NONE]))
        return true; /* a hole in d, too */
    if (src && src == known->at[SOURCES_SEVERAL]) {
        /* Added twice: an overlap in d, too. */
        r->src = SOURCES_ZEROS;
        return draft_run_add(d, r, err) && draft_run_add(d, r, err);
    }
    if (src && (zf_source_lost(src, from->off, &until, &how) || until < from->off + from->len)) {
        d->lost = true;
        d->unshaped = d->unshaped || of->unshaped;
    }
    if (!sources_add(known, src, &number, err))
        return false;
    r->src = number;
    r->off = from->off;
    return draft_run_add(d, r, err);
}

bool zf_draft_unflatten(struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                        struct zf_draft *of, uint64_t of_first, struct zf_err *err)
{
    struct run r = {.start = start, .size = size};
    uint64_t n;

    d = draft_data(d);
    of = draft_data(of);
    if (!draft_takes_pieces(d, err) || !draft_box_inside(d, start, size, &n, err))
        return false;
    if (d == of || of->dtype != d->dtype || of->kind == ZF_DRAFT_MEM || of->parts ||
        (of->kind == ZF_DRAFT_BOX && of->ndim > 1) || !zf_within(of_first, n, of->elems))
        return draft_refuse(d, err, "has a stretch that is not inside a flat tensor of its type");
    if (n == 0)
        return true;
    const struct zf_map *m = draft_change(d, err) ? draft_map_so_far(of, NULL, err) : NULL;
    const uint64_t elem = zf_dtype_info(d->dtype)->bytes;
    d->noted = d->noted || of->noted;
    for (; m && r.first < n; r.first += r.n) {
        struct zf_run run = zf_map_at(m, (of_first + r.first) * elem);
        const uint64_t left = (n - r.first) * elem;

        run.len = run.len < left ? run.len : left;
        r.n = run.len / elem;
        if (!of_stretch_run(d, &r, of, &run, err))
            return false;
    }
    return m != NULL;
}

/* ---- a box as a box ----------------------------------------------------------------------- */

/* Copies the parts of the pieces of `of` that lie in a box.  A clipped piece becomes a box with strides in its source, so
 * a copy has at most a few pieces per piece of the original. */
struct copy {
    struct zf_draft *d;
    const struct zf_draft *of;
    const uint64_t *start, *of_start, *size; /* [ndim] */
    uint64_t *stride, *box;                  /* [ndim], [2 * ndim] of the current piece */
};

/* Adds the wanted part of the box [start, start + extent) of `of` to d.  The box has the strides of c
 * in its source. */
static bool of_box_part(const struct copy *c, const struct piece *what, const uint64_t *start,
                        const uint64_t *extent, struct zf_err *err)
{
    uint32_t nd = c->of->ndim;
    uint64_t elem = zf_dtype_info(c->of->dtype)->bytes, at = 0, n = 1;

    for (uint32_t k = 0; k < nd; k++) {
        uint64_t lo = start[k] > c->of_start[k] ? start[k] : c->of_start[k];
        uint64_t a = start[k] + extent[k], b = c->of_start[k] + c->size[k];

        if ((a < b ? a : b) <= lo)
            return true;
        at += (lo - start[k]) * c->stride[k]; /* inside the piece's span, which was checked */
    }
    for (uint32_t k = 0; k < nd; k++) {
        uint64_t lo = start[k] > c->of_start[k] ? start[k] : c->of_start[k];
        uint64_t a = start[k] + extent[k], b = c->of_start[k] + c->size[k];

        c->box[k] = c->start[k] + lo - c->of_start[k];
        c->box[nd + k] = (a < b ? a : b) - lo;
        n *= c->box[nd + k];
    }
    return draft_run_add(c->d,
                         &(struct run){.start = c->box,
                                       .size = c->box + nd,
                                       .n = n,
                                       .off = what->off + at * elem,
                                       .src = what->src,
                                       .stride = c->stride},
                         err);
}

/* Splits a range of `of` into a few boxes, each packed in the source. */
static bool of_box_run(const struct copy *c, const struct piece *from, uint64_t *box,
                       struct zf_err *err)
{
    uint64_t elem = zf_dtype_info(c->of->dtype)->bytes, n;
    struct piece what = {.off = from->off, .src = from->src};

    for (uint64_t done = 0; done < from->box[1]; done += n, what.off += n * elem) {
        n = zf_box_sub(c->of->ndim, c->of->shape, from->box[0] + done, from->box[1] - done, box,
                       box + c->of->ndim);
        zf_packed_strides(c->of->ndim, box + c->of->ndim, c->stride);
        if (!of_box_part(c, &what, box, box + c->of->ndim, err))
            return false;
    }
    return true;
}

static bool of_box_piece(const struct copy *c, const struct piece *p, uint64_t *box,
                         struct zf_err *err)
{
    uint32_t nd = c->of->ndim;

    if (c->of->kind != ZF_DRAFT_BOX)
        return of_box_run(c, p, box, err);
    if (p->stride)
        memcpy(c->stride, p->stride, nd * sizeof *c->stride);
    else
        zf_packed_strides(nd, p->box + nd, c->stride);
    return of_box_part(c, p, p->box, p->box + nd, err);
}

static bool of_box_possible(const struct zf_draft *d, const struct zf_draft *of, struct zf_err *err)
{
    if (d == of || of->dtype != d->dtype || of->ndim != d->ndim)
        return draft_refuse(d, err, "has a box of a tensor of another type");
    return !of->parts || draft_refuse(d, err, "has a box of a tensor that is made of others");
}

/* Copies a tensor whose data is a value in memory. */
static bool of_value(struct zf_draft *d, const struct zf_draft *of, uint64_t n, struct zf_err *err)
{
    if (d->kind != ZF_DRAFT_EMPTY || n != of->elems || n != d->elems)
        return draft_refuse(d, err, "has a piece of a value");
    if (!draft_change(d, err))
        return false;
    d->kind = ZF_DRAFT_MEM;
    d->mem = of->mem;
    return true;
}

bool zf_draft_copy(struct zf_draft *d, const uint64_t *start, struct zf_draft *of,
                   const uint64_t *of_start, const uint64_t *size, struct zf_err *err)
{
    uint64_t n, n_of;
    struct copy c = {.start = start, .of_start = of_start, .size = size};

    c.d = d = draft_data(d);
    c.of = of = draft_data(of);
    if (!of_box_possible(d, of, err) || !draft_takes_pieces(d, err) ||
        !draft_box_inside(d, start, size, &n, err))
        return false;
    if (of->kind == ZF_DRAFT_MEM)
        return of_value(d, of, n, err);
    if (!draft_box_inside(of, of_start, size, &n_of, err))
        return false;
    if (n == 0)
        return true;
    uint64_t *box = zf_arena_get(d->b->temp, 5 * (uint64_t)d->ndim + 1, sizeof *box, err);
    if (!box || !draft_change(d, err))
        return false;
    c.stride = box + 2 * (size_t)d->ndim;
    c.box = c.stride + d->ndim;
    d->lost = d->lost || of->lost;
    d->unshaped = d->unshaped || of->unshaped;
    d->noted = d->noted || of->noted;
    struct piece_walk walk = piece_walk(of);
    for (const struct piece *p; (p = piece_next(&walk));)
        if (!of_box_piece(&c, p, box, err))
            return false;
    return true;
}
