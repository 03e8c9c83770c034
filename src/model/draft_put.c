/* SPDX-License-Identifier: Apache-2.0 */
/* Adds pieces: ranges of a box in the box's C order.  If the box is contiguous in the tensor, so is
 * the range, and it is stored flat: two numbers, and a map without dimensions.  Otherwise it is split
 * into smaller boxes, and all flat pieces of the tensor are turned into boxes, too, so that the seal
 * has one kind to prove. */
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "box.h"
#include "draft.h"

/* ---- storing ------------------------------------------------------------------------------ */

/* Is the box contiguous in the tensor?  Then *out_first is the element at which the run begins. */
static bool put_is_flat(const struct zf_draft *d, const struct run *r, uint64_t *out_first)
{
    uint64_t first = 0, step = 1;
    bool whole = true; /* the box covers all dimensions inside this one */

    for (uint32_t i = d->ndim; i-- > 0;) {
        if (!whole && r->size[i] != 1)
            return false;
        whole = whole && r->size[i] == d->shape[i];
        first += r->start ? r->start[i] * step : 0;
        step *= d->shape[i];
    }
    *out_first = first + r->first;
    return true;
}

/* Are these the strides of a packed box?  Strides of dimensions of size 1 do not count. */
static bool put_is_packed(uint32_t ndim, const uint64_t *size, const uint64_t *stride)
{
    uint64_t want = 1;

    for (uint32_t i = ndim; stride && i-- > 0;) {
        if (size[i] > 1 && stride[i] != want)
            return false;
        want *= size[i];
    }
    return true;
}

/* Splits a range of a box into smaller boxes: in each dimension the rest of a row, whole rows, and
 * the beginning of a row.  A run with strides is always the whole box. */
static bool put_boxes(struct zf_draft *d, const struct run *r, struct zf_err *err)
{
    uint64_t elem = zf_dtype_info(d->dtype)->bytes;
    const uint64_t *stride = NULL;

    if (r->stride && !(stride = zf_arena_copy(d->b->temp, r->stride, d->ndim, sizeof *stride, err)))
        return false;
    for (uint64_t done = 0; done < r->n;) {
        struct piece *p = draft_new_piece(d, err);

        if (!p)
            return false;
        p->off = r->off + done * elem;
        p->src = r->src;
        p->stride = stride;
        done +=
            zf_box_sub(d->ndim, r->size, r->first + done, r->n - done, p->box, p->box + d->ndim);
        for (uint32_t i = 0; r->start && i < d->ndim; i++)
            p->box[i] += r->start[i];
    }
    return true;
}

/* Turns the flat pieces of d into boxes, before the first box that is not contiguous is added.
 * Errors: ZF_E_FORMAT d has parts of other tensors. */
static bool put_use_boxes(struct zf_draft *d, struct zf_err *err)
{
    if (d->kind == ZF_DRAFT_BOX)
        return true;
    if (d->parts)
        return draft_refuse(d, err, "is made both of parts of other tensors and of boxes");
    const struct zf_draft was = *d;
    struct piece_walk flat = piece_walk(&was);
    if (!draft_change(d, err))
        return false;
    d->kind = ZF_DRAFT_BOX;
    d->b->rest.n_pieces -= d->n_pieces;
    d->n_pieces = 0;
    d->pieces.first = d->pieces.last = NULL;
    for (const struct piece *p; (p = piece_next(&flat));) {
        const struct run r = {
            .size = d->shape, .first = p->box[0], .n = p->box[1], .off = p->off, .src = p->src};

        if (!put_boxes(d, &r, err))
            return false;
    }
    return true;
}

struct piece *draft_run_flat(struct zf_draft *d, uint64_t first, uint64_t n, uint64_t src,
                             uint64_t off, struct zf_err *err)
{
    const struct zf_draft was = *d;

    if (!draft_change(d, err))
        return NULL;
    d->kind = ZF_DRAFT_FLAT;
    if (was.kind == ZF_DRAFT_WHOLE) {
        d->b->rest.n_pieces -= d->n_pieces;
        d->n_pieces = 0;
        d->pieces.first = d->pieces.last = NULL;
        if (!draft_new_flat(d, 0, d->elems, was.whole.src, was.whole.off, err))
            return NULL;
    }
    return draft_new_flat(d, first, n, src, off, err);
}

bool draft_run_add(struct zf_draft *d, const struct run *run, struct zf_err *err)
{
    struct run r = *run;
    uint64_t first;

    if (r.src == SOURCES_ZEROS || put_is_packed(d->ndim, r.size, r.stride))
        r.stride = NULL;
    if (d->kind == ZF_DRAFT_EMPTY && r.n == d->elems && !r.stride)
        return draft_put_whole(d, r.src, r.off, err);
    if (d->kind == ZF_DRAFT_BOX || r.stride || !put_is_flat(d, &r, &first))
        return put_use_boxes(d, err) && put_boxes(d, &r, err);
    return draft_run_flat(d, first, r.n, r.src, r.off, err) != NULL;
}

/* ---- the verb ----------------------------------------------------------------------------- */

bool draft_run_inside(const struct zf_draft *d, struct run *r, struct zf_err *err)
{
    uint64_t elems = 0;
    char text[160];

    if (!draft_takes_pieces(d, err) || !draft_box_inside(d, r->start, r->size, &elems, err))
        return false;
    if (r->whole) {
        r->first = 0;
        r->n = elems;
    }
    if (zf_within(r->first, r->n, elems))
        return !r->stride || r->n == elems || draft_refuse(d, err, "has a flat slice with strides");
    (void)snprintf(text, sizeof text,
                   "has only %llu elements%s, but a slice of %llu begins at %llu",
                   (unsigned long long)elems, r->size != d->shape ? " in a box" : "",
                   (unsigned long long)r->n, (unsigned long long)r->first);
    return draft_refuse(d, err, text);
}

/* The bytes in the source from the first element to the end of the last; false: overflow. */
static bool put_span(const struct zf_draft *d, const struct run *r, uint64_t *out)
{
    uint64_t last = 0;

    if (!r->stride) {
        *out =
            r->n * zf_dtype_info(d->dtype)->bytes; /* cannot overflow: at most the tensor's bytes */
        return true;
    }
    for (uint32_t i = 0; i < d->ndim; i++)
        if (!zf_mul_add(r->size[i] - 1, r->stride[i], last, &last))
            return false;
    return zf_add(last, 1, &last) && zf_mul(last, zf_dtype_info(d->dtype)->bytes, out);
}

/* Registers the source of r and sets r's offset in it. */
static bool put_take_source(struct zf_draft *d, struct run *r, struct zf_from *from,
                            struct zf_err *err)
{
    const struct zf_lost beyond = {.file = from->src ? from->src->name : "",
                                   .why = "ends before this piece"};
    uint64_t span = 0, end;
    uint32_t number;

    if (from->src && !from->lost && (!put_span(d, r, &span) || !zf_add(from->off, span, &end))) {
        if (!draft_tolerate(d, from, err))
            return false;
        from->lost = &beyond;
    }
    if (from->lost) {
        *from = (struct zf_from){.lost = from->lost};
        r->stride = NULL;
        if (!draft_lost_source(d, NULL, 0, draft_bytes(d), from->lost, &number, err))
            return false;
    } else if (!draft_take_source(d, from, span, &number, err)) {
        return false;
    }
    r->src = number;
    r->off = from->off;
    return true;
}

bool zf_draft_put(struct zf_draft *d, struct zf_where where, struct zf_from from,
                  struct zf_err *err)
{
    struct run r = {.start = where.start, .first = where.first, .n = where.n, .whole = where.whole};

    d = draft_data(d);
    r.size = where.size ? where.size : d->shape;
    r.stride = from.src && !from.lost ? from.stride : NULL;
    if (!draft_run_inside(d, &r, err))
        return false;
    return r.n == 0 || (put_take_source(d, &r, &from, err) && draft_run_add(d, &r, err));
}

/* ---- what was put ------------------------------------------------------------------------- */

/* Does the only piece of d, a box, cover all of d with these strides? */
static bool put_is_all(const struct zf_draft *d, const struct piece *p, const uint64_t *stride)
{
    const uint64_t *start = p->box, *size = p->box + d->ndim;

    for (uint32_t i = 0; i < d->ndim; i++)
        if (start[i] != 0 || size[i] != d->shape[i] || p->stride[i] != stride[i])
            return false;
    return true;
}

bool zf_draft_is_from(const struct zf_draft *d, struct zf_type type, struct zf_from from)
{
    const struct zf_source *src = zf_window_of(from.src, &from.off);
    struct zf_source *const *known = d->b->sources->at;

    if (!src || !zf_type_equal(zf_draft_type(d), type))
        return false;
    if (d->kind == ZF_DRAFT_WHOLE)
        return !from.stride && known[d->whole.src] == src && d->whole.off == from.off;
    if ((d->kind != ZF_DRAFT_BOX && d->kind != ZF_DRAFT_FLAT) || d->n_pieces != 1 || d->parts)
        return false;
    const struct piece *p = (const struct piece *)d->pieces.first->words;
    const bool all = d->kind == ZF_DRAFT_FLAT
                         ? !from.stride && p->box[0] == 0 && p->box[1] == d->elems
                         : from.stride && p->stride && put_is_all(d, p, from.stride);

    return all && known[p->src] == src && p->off == from.off;
}
