/* SPDX-License-Identifier: Apache-2.0 */
/* Flat pieces and runs.  A run is a range of a box in the box's own order.  Where the box is one
 * stretch of the tensor, so is the run, and it is kept flat: two numbers, and a map without
 * dimensions.  Otherwise it is cut into smaller boxes, and from then on all of the tensor is boxes:
 * flat pieces from before are cut too, so that seal has one kind to prove. */
#include "draft.h"

#include <stdio.h>

#include <zf/base/num.h>

#include "box.h"

/* Is the box one stretch of the tensor?  Then *out_first is where in the tensor the run begins. */
static bool run_is_flat(const struct zf_draft *d, const struct run *r, uint64_t *out_first)
{
    uint64_t first = 0, step = 1;
    bool whole = true; /* in all dimensions inside this one */

    for (uint32_t i = d->ndim; i-- > 0;) {
        if (!whole && r->size[i] != 1) {
            return false;
        }
        whole = whole && r->size[i] == d->shape[i];
        first += r->start ? r->start[i] * step : 0;
        step *= d->shape[i];
    }
    *out_first = first + r->first;
    return true;
}

/* A run of a box that is no stretch of the tensor is a few smaller boxes: the rest of a row, rows,
 * and the beginning of one, in each dimension. */
static bool run_add_boxes(struct zf_draft *d, const struct run *r, struct zf_err *err)
{
    uint64_t elem = zf_dtype_info(d->dtype)->bytes;

    for (uint64_t done = 0; done < r->n;) {
        struct piece *p = draft_new_piece(d, err);

        if (!p) {
            return false;
        }
        p->off = r->off + done * elem;
        p->src = r->src;
        done +=
            zf_box_sub(d->ndim, r->size, r->first + done, r->n - done, p->box, p->box + d->ndim);
        for (uint32_t i = 0; r->start && i < d->ndim; i++) {
            p->box[i] += r->start[i];
        }
    }
    return true;
}

bool draft_run_use_boxes(struct zf_draft *d, struct zf_err *err)
{
    if (d->kind == ZF_DRAFT_BOX) {
        return true;
    }
    if (d->parts) {
        return draft_refuse(d, err, "is made of parts of other tensors and of boxes at once");
    }
    const struct zf_draft was = *d;
    struct piece_walk flat = piece_walk(&was);
    if (!draft_change(d, err)) {
        return false;
    }
    d->kind = ZF_DRAFT_BOX;
    d->b->rest.n_pieces -= d->n_pieces;
    d->n_pieces = 0;
    d->pieces.first = d->pieces.last = NULL;
    for (const struct piece *p; (p = piece_next(&flat));) {
        const struct run r = {
            .size = d->shape, .first = p->box[0], .n = p->box[1], .off = p->off, .src = p->src};

        if (!run_add_boxes(d, &r, err)) {
            return false;
        }
    }
    return true;
}

static struct piece *run_new_flat(struct zf_draft *d, uint64_t first, uint64_t n, uint64_t src,
                                  uint64_t off, struct zf_err *err)
{
    const struct zf_draft was = *d;

    if (!draft_change(d, err)) {
        return NULL;
    }
    d->kind = ZF_DRAFT_FLAT;
    if (was.kind == ZF_DRAFT_WHOLE) {
        d->b->rest.n_pieces -= d->n_pieces;
        d->n_pieces = 0;
        d->pieces.first = d->pieces.last = NULL;
        if (!draft_new_flat(d, 0, d->elems, was.whole.src, was.whole.off, err)) {
            return NULL;
        }
    }
    return draft_new_flat(d, first, n, src, off, err);
}

bool draft_run_add(struct zf_draft *d, const struct run *r, struct zf_err *err)
{
    uint64_t first;

    if (d->kind == ZF_DRAFT_BOX || !run_is_flat(d, r, &first)) {
        return draft_run_use_boxes(d, err) && run_add_boxes(d, r, err);
    }
    if (d->kind == ZF_DRAFT_EMPTY && r->n == d->elems) {
        return draft_put_whole(d, r->src, r->off, err);
    }
    return run_new_flat(d, first, r->n, r->src, r->off, err) != NULL;
}

/* Is the run inside its box, and the box inside the tensor?  Errors: ZF_E_FORMAT they are not. */
static bool draft_run_inside(const struct zf_draft *d, const struct run *r, struct zf_err *err)
{
    uint64_t elems = 0;
    char text[160];

    if (!draft_takes_pieces(d, err) || !draft_box_inside(d, r->start, r->size, &elems, err)) {
        return false;
    }
    if (zf_within(r->first, r->n, elems)) {
        return true;
    }
    (void)snprintf(text, sizeof text,
                   "has only %llu elements%s, but a slice of %llu begins at %llu",
                   (unsigned long long)elems, r->size != d->shape ? " in a box" : "",
                   (unsigned long long)r->n, (unsigned long long)r->first);
    return draft_refuse(d, err, text);
}

bool zf_draft_run(struct zf_draft *d, const uint64_t *start, const uint64_t *size, uint64_t first,
                  uint64_t n, struct zf_from from, struct zf_err *err)
{
    struct run r = {.start = start, .size = size, .first = first, .n = n};
    uint32_t number;

    d = draft_data(d);
    if (!draft_run_inside(d, &r, err)) {
        return false;
    }
    if (n == 0) {
        return true;
    }
    if (from.stride) {
        return draft_refuse(d, err, "has a flat slice with strides");
    }
    /* Inside the tensor, whose bytes were counted: cannot overflow. */
    uint64_t bytes = n * zf_dtype_info(d->dtype)->bytes;
    if (!draft_take_source(d, &from, bytes, &number, err)) {
        return false;
    }
    r.off = from.off;
    r.src = number;
    return draft_run_add(d, &r, err);
}

bool zf_draft_flat(struct zf_draft *d, uint64_t first, uint64_t n, struct zf_from from,
                   struct zf_err *err)
{
    return zf_draft_run(d, NULL, d->shape, first, n, from, err);
}

bool zf_draft_lost_run(struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                       uint64_t first, uint64_t n, const struct zf_lost *how, struct zf_err *err)
{
    struct run r = {.start = start, .size = size, .first = first, .n = n};
    uint32_t number;

    d = draft_data(d);
    if (!draft_run_inside(d, &r, err)) {
        return false;
    }
    if (n == 0) {
        return true;
    }
    if (!draft_lost_source(d, NULL, 0, draft_bytes(d), how, &number, err)) {
        return false;
    }
    r.src = number;
    return draft_run_add(d, &r, err);
}

bool zf_draft_lost_flat(struct zf_draft *d, uint64_t first, uint64_t n, const struct zf_lost *how,
                        struct zf_err *err)
{
    return zf_draft_lost_run(d, NULL, d->shape, first, n, how, err);
}

bool zf_draft_part(struct zf_draft *d, uint64_t first, uint64_t n, struct zf_draft *of,
                   uint64_t of_first, struct zf_err *err)
{
    d = draft_data(d);
    of = draft_data(of);
    if (!draft_run_inside(d, &(struct run){.size = d->shape, .first = first, .n = n}, err)) {
        return false;
    }
    /* Only what is older can be a part, so there are no cycles, and seal need not look for an order. */
    if (of->number >= d->number || of->dtype != d->dtype || !zf_within(of_first, n, of->elems)) {
        return draft_refuse(d, err, "has a part that is not inside an earlier tensor of its type");
    }
    if (d->kind == ZF_DRAFT_BOX) {
        return draft_refuse(d, err, "is made of parts of other tensors and of boxes at once");
    }
    uint64_t off = of_first * zf_dtype_info(d->dtype)->bytes;
    struct piece *p = n > 0 ? run_new_flat(d, first, n, 0, off, err) : NULL;
    if (p) {
        p->of = of;
        d->parts = true;
    }
    return p || n == 0;
}
