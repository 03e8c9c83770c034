/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes as pieces of a tensor, packed in their source or with strides. */
#include <string.h>

#include <zf/base/num.h>

#include "draft.h"

/* Are these strides what a packed box has anyway?  Strides of extents of 1 mean nothing. */
static bool box_is_packed(uint32_t ndim, const uint64_t *size, const uint64_t *stride)
{
    uint64_t want = 1;

    for (uint32_t i = ndim; stride && i-- > 0;) {
        if (size[i] > 1 && stride[i] != want) {
            return false;
        }
        want *= size[i];
    }
    return true;
}

/* Bytes from the first to behind the last element of a box in its source. */
static bool box_span(const struct zf_draft *d, const uint64_t *size, const uint64_t *stride,
                     uint64_t *out)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < d->ndim; i++) {
        if (!zf_mul_add(size[i] - 1, stride[i], last, &last)) {
            return false;
        }
    }
    return zf_add(last, 1, &last) && zf_mul(last, zf_dtype_info(d->dtype)->bytes, out);
}

/* n: elements of the box. */
static bool box_add(struct zf_draft *d, const uint64_t *start, const uint64_t *size, uint64_t n,
                    const struct piece *what, struct zf_err *err)
{
    if (d->kind == ZF_DRAFT_EMPTY && n == d->elems && !what->stride) {
        return draft_put_whole(d, what->src, what->off, err);
    }
    if (!draft_run_use_boxes(d, err)) {
        return false;
    }
    const uint64_t *stride = NULL;
    if (what->stride &&
        !(stride = zf_arena_copy(d->b->temp, what->stride, d->ndim, sizeof *stride, err))) {
        return false;
    }
    struct piece *p = draft_new_piece(d, err);
    if (!p) {
        return false;
    }
    p->off = what->off;
    p->src = what->src;
    p->stride = stride;
    for (uint32_t i = 0; i < d->ndim; i++) {
        p->box[i] = start ? start[i] : 0;
        p->box[d->ndim + i] = size[i];
    }
    return true;
}

bool zf_draft_box(struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                  struct zf_from from, struct zf_err *err)
{
    uint64_t n = 0, span = 0, end;
    uint32_t number;

    d = draft_data(d);
    if (!draft_takes_pieces(d, err) || !draft_box_inside(d, start, size, &n, err)) {
        return false;
    }
    if (n == 0) {
        return true;
    }
    if (!from.src || box_is_packed(d->ndim, size, from.stride)) {
        from.stride = NULL;
    }
    bool sane = true;
    if (from.stride) {
        sane = box_span(d, size, from.stride, &span);
    } else {
        span = n * zf_dtype_info(d->dtype)->bytes;
    }
    sane = sane && zf_add(from.off, span, &end);
    if (from.src && !sane) {
        const struct zf_lost how = {.file = from.src->name, .why = "ends before this piece"};

        return draft_tolerate(d, &from, err) && zf_draft_lost_box(d, start, size, &how, err);
    }
    if (!draft_take_source(d, &from, span, &number, err)) {
        return false;
    }
    struct piece what = {.off = from.off, .stride = from.stride, .src = number};
    return box_add(d, start, size, n, &what, err);
}

bool zf_draft_lost_box(struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                       const struct zf_lost *how, struct zf_err *err)
{
    uint64_t n = 0;
    uint32_t number = 0;

    d = draft_data(d);
    if (!draft_takes_pieces(d, err) || !draft_box_inside(d, start, size, &n, err)) {
        return false;
    }
    if (n == 0) {
        return true;
    }
    if (!draft_lost_source(d, NULL, 0, draft_bytes(d), how, &number, err)) {
        return false;
    }
    return box_add(d, start, size, n, &(struct piece){.src = number}, err);
}

/* Do the extents of the only piece of d, a box, say that it is all of d with those strides? */
static bool box_is_all(const struct zf_draft *d, const struct piece *p, const uint64_t *stride)
{
    const uint64_t *start = p->box, *size = p->box + d->ndim;

    for (uint32_t i = 0; i < d->ndim; i++) {
        if (start[i] != 0 || size[i] != d->shape[i] || p->stride[i] != stride[i]) {
            return false;
        }
    }
    return true;
}

bool zf_draft_is_from(const struct zf_draft *d, struct zf_type type, struct zf_from from)
{
    const struct zf_source *src = zf_window_of(from.src, &from.off);
    struct zf_source *const *known = d->b->sources->at;

    if (!src || !zf_type_equal(zf_draft_type(d), type)) {
        return false;
    }
    if (d->kind == ZF_DRAFT_WHOLE) {
        return !from.stride && known[d->whole.src] == src && d->whole.off == from.off;
    }
    if ((d->kind != ZF_DRAFT_BOX && d->kind != ZF_DRAFT_FLAT) || d->n_pieces != 1 || d->parts) {
        return false;
    }
    const struct piece *p = (const struct piece *)d->pieces.first->words;
    const bool all = d->kind == ZF_DRAFT_FLAT
                         ? !from.stride && p->box[0] == 0 && p->box[1] == d->elems
                         : from.stride && p->stride && box_is_all(d, p, from.stride);

    return all && known[p->src] == src && p->off == from.off;
}
