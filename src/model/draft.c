/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor in the making: the pieces that a format adds to it, each checked against shape and source when it is added.
 * Whether together they cover the tensor exactly once is for the seal (pieces.c). */
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "box.h"
#include "build_kind.h"

struct zf_type zf_draft_type(const struct zf_draft *d)
{
    return (struct zf_type){d->dtype, d->ndim, d->shape};
}

const char *zf_draft_text(const struct zf_draft *d, char out[ZF_DRAFT_TEXT])
{
    int n = snprintf(out, ZF_DRAFT_TEXT, "tensor \"%.*s\" of shape [",
                     (int)(d->name_len < 90 ? d->name_len : 90), d->name);
    size_t at = (size_t)n;

    for (uint32_t i = 0; i < d->ndim && at < ZF_DRAFT_TEXT - 32; i++) {
        at += (size_t)snprintf(out + at, ZF_DRAFT_TEXT - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)d->shape[i]);
    }
    (void)snprintf(out + at, ZF_DRAFT_TEXT - at, "]");
    return out;
}

/* A sentence about the tensor, at no place yet. */
static bool blame(const struct zf_draft *d, struct zf_err *err, const char *what)
{
    char text[ZF_DRAFT_TEXT];

    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s %s", zf_draft_text(d, text), what);
}

/* The same where its metadata stands. */
static bool refuse(const struct zf_draft *d, struct zf_err *err, const char *what)
{
    (void)blame(d, err, what);
    return d->where ? zf_err_in(err, "%s", d->where) : false;
}

bool zf_draft_where(struct zf_draft *d, const char *where, struct zf_err *err)
{
    return build_save_draft(d, err) &&
           (d->where = zf_arena_str(d->b->temp, where, strlen(where), err)) != NULL;
}

bool zf_draft_noted(struct zf_draft *d, struct zf_err *err)
{
    d = zf_draft_data(d);
    return build_save_draft(d, err) && (d->noted = true);
}

/* ---- storing pieces ----------------------------------------------------------------------- */

static struct zf_piece *new_piece(struct zf_draft *d, struct zf_err *err)
{
    struct zf_build *b = d->b;
    uint64_t words = zf_piece_words(d);

    if (!build_save_draft(d, err)) {
        return NULL;
    }
    if (b->rest.n_pieces >= b->lim.pieces || d->n_pieces >= UINT32_MAX / 2) {
        (void)zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                      "there are more than %llu pieces of tensors (limit pieces)",
                      (unsigned long long)b->lim.pieces);
        return NULL;
    }
    if (!d->last || d->last->n == d->last->cap) {
        uint64_t cap = d->last ? d->last->cap * 2 : 1;
        cap = cap > 4096 ? 4096 : cap;
        struct zf_piece_block *block =
            zf_arena_get(b->temp, 1, sizeof *block + cap * words * 8, err);
        if (!block) {
            return NULL;
        }
        block->cap = cap;
        if (d->last) {
            d->last->next = block;
        } else {
            d->first = block;
        }
        d->last = block;
    }
    /* Where a withdrawn piece was, not all is zero. */
    struct zf_piece *p = memset(d->last->words + d->last->n * words, 0, (size_t)(words * 8));
    d->last->n++;
    d->n_pieces++;
    b->rest.n_pieces++;
    return p;
}

static bool outside(const struct zf_draft *d, const struct zf_source *src, uint64_t off,
                    struct zf_err *err)
{
    char text[160];

    (void)snprintf(text, sizeof text,
                   "has a piece at byte %llu that reaches beyond the end of its data (%llu bytes)",
                   (unsigned long long)off, (unsigned long long)src->size);
    (void)blame(d, err, text);
    return zf_err_in(err, "%s", src->name);
}

bool zf_draft_lost_source(struct zf_draft *d, struct zf_source *parent, uint64_t cut, uint64_t size,
                          const struct zf_lost *how, uint32_t *out, struct zf_err *err)
{
    struct zf_lost with = *how;

    if (!build_save_draft(d, err)) {
        return false;
    }
    with.fill.n = d->b->rest.fill_lost && !how->unshaped
                      ? (uint8_t)zf_dtype_nan(d->dtype, with.fill.byte)
                      : 0;
    d->unshaped = d->unshaped || how->unshaped;
    zf_auto(source) struct zf_source *s = zf_lost_behind(parent, cut, size, &with, err);
    d->lost = true;
    return s && zf_sources_add(d->b->sources, s, out, err);
}

/* A piece whose source is too short: refused, or, when degraded, noted. */
static bool tolerate(struct zf_draft *d, const struct zf_from *from, struct zf_err *err)
{
    char text[800];

    (void)outside(d, from->src, from->off, err);
    if (!d->b->degraded) {
        return false;
    }
    (void)zf_err_text(err, text, sizeof text);
    zf_err_clear(err);
    return d->noted || zf_build_note(d->b, err, "%s", text);
}

/* Instead of from->src: the number of a source that lost what such a piece of `span` bytes has
 * beyond the end.  Where lost elements are filled, one that is cut in two is lost whole. */
static bool cut_short(struct zf_draft *d, struct zf_from *from, uint64_t span, uint32_t *number,
                      struct zf_err *err)
{
    uint64_t size = from->src->size, end;
    uint64_t there = size > from->off ? size - from->off : 0;
    uint8_t nan[16];
    char why[64];

    (void)snprintf(why, sizeof why, "ends at byte %llu", (unsigned long long)size);
    const struct zf_lost how = {.file = from->src->name, .why = why};
    if (d->b->rest.fill_lost && zf_dtype_nan(d->dtype, nan) > 0) {
        there -= there % zf_dtype_info(d->dtype)->bytes;
    }
    if (there == 0) {
        from->off = 0;
        return zf_draft_lost_source(d, NULL, 0, span, &how, number, err);
    }
    /* Offsets stay the file's, so that provenance stays true. */
    if (!zf_add(from->off, span, &end)) {
        end = UINT64_MAX;
    }
    return zf_draft_lost_source(d, from->src, from->off + there, end, &how, number, err);
}

/* Looks at a box before it is believed; *n_out = its elements. */
static bool box_inside(const struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                       uint64_t *n_out, struct zf_err *err)
{
    uint64_t n = 1;
    char text[160];

    if (d->kind == ZF_DRAFT_MEM) {
        return refuse(d, err, "is a value and has pieces besides");
    }
    for (uint32_t i = 0; i < d->ndim; i++) {
        /* An empty shard says offset = size, or anything. */
        if (size[i] == 0) {
            *n_out = 0;
            return true;
        }
    }
    for (uint32_t i = 0; i < d->ndim; i++) {
        uint64_t at = start ? start[i] : 0;

        if (!zf_within(at, size[i], d->shape[i])) {
            (void)snprintf(text, sizeof text,
                           "has a box that reaches from %llu over %llu elements of dimension %u",
                           (unsigned long long)at, (unsigned long long)size[i], i);
            return refuse(d, err, text);
        }
        n *= size[i]; /* no more than the tensor's own elements */
    }
    *n_out = n;
    return true;
}

/* ---- runs --------------------------------------------------------------------------------- */

/* Elements [first, first + n) of a box in its C order, packed at byte `off` of source `src`. */
struct run {
    const uint64_t *start, *size; /* [ndim]; start NULL = the box begins where the tensor does */
    uint64_t first, n;
    uint64_t off, src;
};

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
static bool add_run_as_boxes(struct zf_draft *d, const struct run *r, struct zf_err *err)
{
    uint64_t elem = zf_dtype_info(d->dtype)->bytes;

    for (uint64_t done = 0; done < r->n;) {
        struct zf_piece *p = new_piece(d, err);

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

/* The first piece that is no stretch of the tensor turns those before it into boxes too. */
static bool use_boxes(struct zf_draft *d, struct zf_err *err)
{
    struct zf_piece_block *flat = d->first;
    uint64_t words = zf_piece_words(d);

    if (d->kind == ZF_DRAFT_BOX) {
        return true;
    }
    if (d->n_parts > 0) {
        return refuse(d, err, "is made of parts of other tensors and of boxes at once");
    }
    if (!build_save_draft(d, err)) {
        return false;
    }
    d->kind = ZF_DRAFT_BOX;
    d->b->rest.n_pieces -= d->n_pieces;
    d->n_pieces = 0;
    d->first = d->last = NULL;
    for (; flat; flat = flat->next) {
        for (uint64_t i = 0; i < flat->n; i++) {
            const struct zf_piece *p = (const void *)(flat->words + i * words);
            const struct run r = {
                .size = d->shape, .first = p->box[0], .n = p->box[1], .off = p->off, .src = p->src};

            if (!add_run_as_boxes(d, &r, err)) {
                return false;
            }
        }
    }
    return true;
}

static struct zf_piece *add_flat(struct zf_draft *d, uint64_t first, uint64_t n, struct zf_err *err)
{
    if (!build_save_draft(d, err)) {
        return NULL;
    }
    d->kind = ZF_DRAFT_FLAT;
    struct zf_piece *p = new_piece(d, err);
    if (p) {
        p->box[0] = first;
        p->box[1] = n;
    }
    return p;
}

static bool add_run(struct zf_draft *d, const struct run *r, struct zf_err *err)
{
    uint64_t first;

    if (d->kind == ZF_DRAFT_BOX || !run_is_flat(d, r, &first)) {
        return use_boxes(d, err) && add_run_as_boxes(d, r, err);
    }
    struct zf_piece *p = add_flat(d, first, r->n, err);
    if (!p) {
        return false;
    }
    p->off = r->off;
    p->src = r->src;
    return true;
}

/* Is the run inside its box, and the box inside the tensor? */
static bool run_inside(const struct zf_draft *d, const struct run *r, struct zf_err *err)
{
    uint64_t elems = 0;
    char text[160];

    if (!box_inside(d, r->start, r->size, &elems, err)) {
        return false;
    }
    if (zf_within(r->first, r->n, elems)) {
        return true;
    }
    (void)snprintf(text, sizeof text,
                   "has only %llu elements%s, but a slice of %llu begins at %llu",
                   (unsigned long long)elems, r->size != d->shape ? " in a box" : "",
                   (unsigned long long)r->n, (unsigned long long)r->first);
    return refuse(d, err, text);
}

static bool run_take(struct zf_draft *d, struct run r, struct zf_from from, struct zf_err *err)
{
    uint32_t number;

    if (!run_inside(d, &r, err)) {
        return false;
    }
    if (r.n == 0) {
        return true;
    }
    if (from.stride) {
        return refuse(d, err, "has a flat slice with strides");
    }
    /* Inside the tensor, whose bytes were counted: cannot overflow. */
    uint64_t bytes = r.n * zf_dtype_info(d->dtype)->bytes;
    bool fits = !from.src || zf_within(from.off, bytes, from.src->size);
    if (fits ? !zf_sources_add(d->b->sources, from.src, &number, err)
             : !tolerate(d, &from, err) || !cut_short(d, &from, bytes, &number, err)) {
        return false;
    }
    r.off = from.off;
    r.src = number;
    return add_run(d, &r, err);
}

bool zf_draft_run(struct zf_draft *d, const uint64_t *start, const uint64_t *size, uint64_t first,
                  uint64_t n, struct zf_from from, struct zf_err *err)
{
    return run_take(zf_draft_data(d),
                    (struct run){.start = start, .size = size, .first = first, .n = n}, from, err);
}

bool zf_draft_flat(struct zf_draft *d, uint64_t first, uint64_t n, struct zf_from from,
                   struct zf_err *err)
{
    return run_take(zf_draft_data(d), (struct run){.size = d->shape, .first = first, .n = n}, from,
                    err);
}

static bool run_lose(struct zf_draft *d, struct run r, const struct zf_lost *how,
                     struct zf_err *err)
{
    uint32_t number;

    if (!run_inside(d, &r, err)) {
        return false;
    }
    if (r.n == 0) {
        return true;
    }
    if (!zf_draft_lost_source(d, NULL, 0, d->bytes, how, &number, err)) {
        return false;
    }
    r.src = number;
    return add_run(d, &r, err);
}

bool zf_draft_lost_run(struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                       uint64_t first, uint64_t n, const struct zf_lost *how, struct zf_err *err)
{
    return run_lose(zf_draft_data(d),
                    (struct run){.start = start, .size = size, .first = first, .n = n}, how, err);
}

bool zf_draft_lost_flat(struct zf_draft *d, uint64_t first, uint64_t n, const struct zf_lost *how,
                        struct zf_err *err)
{
    return run_lose(zf_draft_data(d), (struct run){.size = d->shape, .first = first, .n = n}, how,
                    err);
}

bool zf_draft_part(struct zf_draft *d, uint64_t first, uint64_t n, struct zf_draft *of,
                   uint64_t of_first, struct zf_err *err)
{
    d = zf_draft_data(d);
    of = zf_draft_data(of);
    if (!run_inside(d, &(struct run){.size = d->shape, .first = first, .n = n}, err)) {
        return false;
    }
    /* Only what is older can be a part, so there are no cycles, and seal need not look for an order. */
    if (of->number >= d->number || of->dtype != d->dtype || !zf_within(of_first, n, of->elems)) {
        return refuse(d, err, "has a part that is not inside an earlier tensor of its type");
    }
    if (d->kind == ZF_DRAFT_BOX) {
        return refuse(d, err, "is made of parts of other tensors and of boxes at once");
    }
    struct zf_piece *p = n > 0 ? add_flat(d, first, n, err) : NULL;
    if (p) {
        p->off = of_first * zf_dtype_info(d->dtype)->bytes;
        p->of = of;
        d->n_parts++;
    }
    return p || n == 0;
}

/* ---- boxes -------------------------------------------------------------------------------- */

/* Are these strides what a packed box has anyway?  Strides of extents of 1 mean nothing. */
static bool is_packed(uint32_t ndim, const uint64_t *size, const uint64_t *stride)
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

static bool add_box(struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                    const struct zf_piece *what, struct zf_err *err)
{
    if (!use_boxes(d, err)) {
        return false;
    }
    const uint64_t *stride = NULL;
    if (what->stride) {
        uint64_t *copy = zf_arena_get(d->b->temp, d->ndim, sizeof *copy, err);
        if (!copy) {
            return false;
        }
        memcpy(copy, what->stride, d->ndim * sizeof *copy);
        stride = copy;
    }
    struct zf_piece *p = new_piece(d, err);
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

    d = zf_draft_data(d);
    if (!box_inside(d, start, size, &n, err)) {
        return false;
    }
    if (n == 0) {
        return true;
    }
    if (!from.src || is_packed(d->ndim, size, from.stride)) {
        from.stride = NULL;
    }
    bool sane = true;
    if (from.stride) {
        sane = box_span(d, size, from.stride, &span);
    } else {
        span = n * zf_dtype_info(d->dtype)->bytes;
    }
    sane = sane && zf_add(from.off, span, &end);
    if (from.src && (!sane || end > from.src->size)) {
        if (!tolerate(d, &from, err)) {
            return false;
        }
        if (!sane) {
            const struct zf_lost how = {.file = from.src->name, .why = "ends before this piece"};

            return zf_draft_lost_box(d, start, size, &how, err);
        }
        if (!cut_short(d, &from, span, &number, err)) {
            return false;
        }
    } else if (!zf_sources_add(d->b->sources, from.src, &number, err)) {
        return false;
    }
    struct zf_piece what = {.off = from.off, .stride = from.stride, .src = number};
    return add_box(d, start, size, &what, err);
}

bool zf_draft_lost_box(struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                       const struct zf_lost *how, struct zf_err *err)
{
    uint64_t n = 0;
    uint32_t number = 0;

    d = zf_draft_data(d);
    if (!box_inside(d, start, size, &n, err)) {
        return false;
    }
    if (n == 0) {
        return true;
    }
    if (!zf_draft_lost_source(d, NULL, 0, d->bytes, how, &number, err)) {
        return false;
    }
    return add_box(d, start, size, &(struct zf_piece){.src = number}, err);
}
