/* SPDX-License-Identifier: Apache-2.0 */
/* A box of one tensor as a box of another: the pieces that it has there, as far as they reach into it.  A
 * piece that is clipped is a box with strides in its source, so no copy has more than a few pieces
 * for each of the original's. */
#include <string.h>

#include <zf/base/num.h>

#include "box.h"
#include "draft.h"

struct copy {
    struct zf_draft *d;
    const struct zf_draft *of;
    const uint64_t *start, *of_start, *size; /* [ndim] */
    uint64_t *stride;                        /* [ndim] of the piece that is looked at */
};

/* The part of the box [start, start + extent) of `of` that is wanted, as a piece of d.  The box has
 * the strides of c in its source. */
static bool copy_box(const struct copy *c, const struct piece *what, const uint64_t *start,
                     const uint64_t *extent, struct zf_err *err)
{
    uint32_t nd = c->of->ndim;
    uint64_t elem = zf_dtype_info(c->of->dtype)->bytes, at = 0;

    for (uint32_t k = 0; k < nd; k++) {
        uint64_t lo = start[k] > c->of_start[k] ? start[k] : c->of_start[k];
        uint64_t a = start[k] + extent[k], b = c->of_start[k] + c->size[k];

        if ((a < b ? a : b) <= lo) {
            return true;
        }
        at += (lo - start[k]) * c->stride[k]; /* inside the piece's span, which was checked */
    }
    uint64_t *stride = zf_arena_get(c->d->b->temp, nd, sizeof *stride, err);
    struct piece *p = stride ? draft_new_piece(c->d, err) : NULL;
    if (!p) {
        return false;
    }
    p->src = what->src;
    p->off = what->off + at * elem;
    p->stride = what->src ? memcpy(stride, c->stride, nd * sizeof *stride) : NULL;
    for (uint32_t k = 0; k < nd; k++) {
        uint64_t lo = start[k] > c->of_start[k] ? start[k] : c->of_start[k];
        uint64_t a = start[k] + extent[k], b = c->of_start[k] + c->size[k];

        p->box[k] = c->start[k] + lo - c->of_start[k];
        p->box[nd + k] = (a < b ? a : b) - lo;
    }
    return true;
}

/* A stretch of `of` is a few boxes, each packed in the source. */
static bool copy_run(const struct copy *c, const struct piece *from, uint64_t *box,
                     struct zf_err *err)
{
    uint64_t elem = zf_dtype_info(c->of->dtype)->bytes, n;
    struct piece what = {.off = from->off, .src = from->src};

    for (uint64_t done = 0; done < from->box[1]; done += n, what.off += n * elem) {
        n = zf_box_sub(c->of->ndim, c->of->shape, from->box[0] + done, from->box[1] - done, box,
                       box + c->of->ndim);
        zf_packed_strides(c->of->ndim, box + c->of->ndim, c->stride);
        if (!copy_box(c, &what, box, box + c->of->ndim, err)) {
            return false;
        }
    }
    return true;
}

static bool copy_piece(const struct copy *c, const struct piece *p, uint64_t *box,
                       struct zf_err *err)
{
    uint32_t nd = c->of->ndim;

    if (c->of->kind != ZF_DRAFT_BOX) {
        return copy_run(c, p, box, err);
    }
    if (p->stride) {
        memcpy(c->stride, p->stride, nd * sizeof *c->stride);
    } else {
        zf_packed_strides(nd, p->box + nd, c->stride);
    }
    return copy_box(c, p, p->box, p->box + nd, err);
}

static bool copy_possible(const struct zf_draft *d, const struct zf_draft *of, struct zf_err *err)
{
    if (d == of || of->dtype != d->dtype || of->ndim != d->ndim) {
        return draft_refuse(d, err, "has a box of a tensor of another type");
    }
    return !of->parts || draft_refuse(d, err, "has a box of a tensor that is made of others");
}

/* The whole of a value. */
static bool copy_value(struct zf_draft *d, const struct zf_draft *of, uint64_t n,
                       struct zf_err *err)
{
    if (d->kind != ZF_DRAFT_EMPTY || n != of->elems || n != d->elems) {
        return draft_refuse(d, err, "has a piece of a value");
    }
    if (!draft_change(d, err)) {
        return false;
    }
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
    if (!copy_possible(d, of, err) || !draft_takes_pieces(d, err) ||
        !draft_box_inside(d, start, size, &n, err)) {
        return false;
    }
    if (of->kind == ZF_DRAFT_MEM) {
        return copy_value(d, of, n, err);
    }
    if (!draft_box_inside(of, of_start, size, &n_of, err)) {
        return false;
    }
    if (n == 0) {
        return true;
    }
    uint64_t *box = zf_arena_get(d->b->temp, 3 * (uint64_t)d->ndim + 1, sizeof *box, err);
    if (!box || !draft_change(d, err) || !draft_run_use_boxes(d, err)) {
        return false;
    }
    c.stride = box + 2 * (size_t)d->ndim;
    d->lost = d->lost || of->lost;
    d->unshaped = d->unshaped || of->unshaped;
    d->noted = d->noted || of->noted;
    struct piece_walk walk = piece_walk(of);
    for (const struct piece *p; (p = piece_next(&walk));) {
        if (!copy_piece(&c, p, box, err)) {
            return false;
        }
    }
    return true;
}
