/* SPDX-License-Identifier: Apache-2.0 */
/* From the pieces of a draft to its map: pieces that are ranges of bytes go to map_flat.c,
 * boxes, whose dimensions are joined where all of them are whole, to grid_prove.c, parts of
 * other tensors to map_parts.c, and rules to map_slots.c; each proves that together they cover
 * the tensor exactly once. */
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "draft.h"
#include "map_flat.h"
#include "map_grid.h"
#include "map_kind.h"
#include "map_slots.h"
#include "boxes.h"

/* ---- what to say -------------------------------------------------------------------------- */

static void pieces_coordinates(const struct zf_draft *d, uint64_t byte, char *out, size_t n)
{
    uint64_t elem = byte / zf_dtype_info(d->dtype)->bytes, part = d->elems;
    size_t at = 1;

    (void)snprintf(out, n, "[");
    for (uint32_t i = 0; i < d->ndim && at + 24 < n; i++) {
        part /= d->shape[i];
        at += (size_t)snprintf(out + at, n - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)(elem / part));
        elem %= part;
    }
    (void)snprintf(out + at, n - at, "]");
}

/* Puts the fault into *err, with the tensor's metadata as its place. */
static bool pieces_tell(const struct zf_draft *d, struct fault f, struct zf_err *err)
{
    char text[DRAFT_TEXT], a[80], b[80];
    const char *by = f.kind == ZF_FAULT_HOLE ? "nothing" : "more than one piece";

    pieces_coordinates(d, f.first, a, sizeof a);
    pieces_coordinates(d, f.last, b, sizeof b);
    if (strcmp(a, b) == 0) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s: element %s is covered by %s",
                      draft_text(d, text), a, by);
    } else {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s: elements %s to %s are covered by %s",
                      draft_text(d, text), a, b, by);
    }
    return draft_place(d, err);
}

/* A fault in degraded mode: a note, and the number of a source that answers with the sentence. */
static bool pieces_lose(struct zf_draft *d, struct fault f, uint32_t *lost_out, struct zf_err *err)
{
    char text[800];

    (void)pieces_tell(d, f, err);
    (void)zf_err_text(err, text, sizeof text);
    zf_err_clear(err);
    return draft_lost_source(d, NULL, 0, draft_bytes(d), &(struct zf_lost){.why = text}, lost_out,
                             err) &&
           zf_build_note(d->b, err, "%s", text);
}

/* ---- flat --------------------------------------------------------------------------------- */

/* Proves the pieces, or mends them; NULL with err when the tensor is refused. */
static struct flat_piece *pieces_prove_flat(struct zf_draft *d, struct flat_piece *p, uint64_t *n,
                                            struct zf_arena *scratch, struct zf_err *err)
{
    struct fault fault = flat_prove(p, *n, draft_bytes(d));
    uint32_t lost;

    if (fault.kind == ZF_FAULT_NONE) {
        return p;
    }
    if (!d->b->degraded) {
        (void)pieces_tell(d, fault, err);
        return NULL;
    }
    return pieces_lose(d, fault, &lost, err)
               ? flat_mend(p, *n, draft_bytes(d), lost, scratch, n, err)
               : NULL;
}

static bool pieces_flat_map(struct zf_draft *d, struct flat_piece *p, uint64_t n,
                            struct zf_arena *scratch, struct zf_err *err)
{
    p = pieces_prove_flat(d, p, &n, scratch, err);
    d->map = p ? flat_map(d->b->keep, d->b->sources, p, n, draft_bytes(d), err) : NULL;
    return d->map != NULL;
}

/* ---- parts of other tensors --------------------------------------------------------------- */

/* For the proof a part is a piece like others.  Its source's number, counted down from the largest,
 * is above those of all sources and says which tensor it is a part of. */
static uint32_t pieces_part_number(uint64_t i)
{
    return UINT32_MAX - (uint32_t)i;
}

/* The map of one proved piece; zeros have none. */
static bool pieces_part_map(struct zf_draft *d, const struct flat_piece *p,
                            struct zf_draft *const *of, struct zf_part *out, struct zf_err *err)
{
    const struct sources *t = d->b->sources;
    struct zf_loss loss;

    *out = (struct zf_part){.n = p->len};
    if (p->src == 0) {
        return true;
    }
    if (p->src < t->n) {
        out->map = zf_map_of_source(d->b->keep, t->at[p->src], p->off, p->len, err);
        return out->map != NULL;
    }
    const struct zf_draft *whole = of[pieces_part_number(p->src)];
    out->map = zf_map_slice(d->b->keep, whole->map, p->off, p->len, err);
    if (out->map && whole->lost && zf_map_loss(out->map, 0, &loss)) {
        d->lost = true;
        d->unshaped = d->unshaped || whole->unshaped;
    }
    return out->map != NULL;
}

static bool pieces_parts_map(struct zf_draft *d, struct flat_piece *p, uint64_t n,
                             struct zf_draft *const *of, struct zf_arena *scratch,
                             struct zf_err *err)
{
    p = pieces_prove_flat(d, p, &n, scratch, err);
    struct zf_part *part = p ? zf_arena_get(scratch, n, sizeof *part, err) : NULL;

    for (uint64_t i = 0; part && i < n; i++) {
        if (!pieces_part_map(d, &p[i], of, &part[i], err)) {
            return false;
        }
    }
    if (part && n == 1 && part->map) {
        d->map = part->map; /* a slice, so that a slice of d needs no other map than this one's */
        return true;
    }
    d->map = part ? zf_map_of_parts(d->b->keep, part, n, err) : NULL;
    return d->map != NULL;
}

static bool pieces_flat_draft(struct zf_draft *d, struct zf_arena *scratch, struct zf_err *err)
{
    struct flat_piece *p = zf_arena_get(scratch, d->n_pieces, sizeof *p, err);
    struct zf_draft **of =
        p ? zf_arena_get(scratch, d->parts ? d->n_pieces : 0, sizeof(*of), err) : NULL;
    uint64_t elem = zf_dtype_info(d->dtype)->bytes, n = 0, n_of = 0;
    struct piece_walk walk = piece_walk(d);

    if (!of) {
        return false;
    }
    for (const struct piece *from; (from = piece_next(&walk));) {
        p[n++] = (struct flat_piece){.first = from->box[0] * elem,
                                     .len = from->box[1] * elem,
                                     .off = from->off,
                                     .src = (uint32_t)from->src};
        if (from->of) {
            p[n - 1].src = pieces_part_number(n_of);
            of[n_of++] = from->of;
        }
    }
    return n_of > 0 ? pieces_parts_map(d, p, n, of, scratch, err)
                    : pieces_flat_map(d, p, n, scratch, err);
}

/* ---- joining dimensions ------------------------------------------------------------------- */

/* Which dimension of the joined boxes each one of the tensor goes to.  Extents of 1 vanish (their
 * start is 0), and a dimension that every box has whole goes into the one before it. */
struct joined {
    uint32_t nd;                 /* dimensions left, in elements */
    uint32_t first[ZF_BOX_DIMS]; /* [nd] outermost dimension of the tensor in it */
    uint32_t last[ZF_BOX_DIMS];  /* [nd] innermost one */
    uint64_t shape[ZF_BOX_DIMS];
    bool by_bytes; /* some box has its elements apart: bytes get a dimension of their own */
    bool strided;  /* some box has strides */
};

static bool pieces_joinable(const struct zf_draft *d, const struct piece *p, uint32_t outer,
                            uint32_t inner)
{
    const uint64_t *size = p->box + d->ndim;
    uint64_t step;

    if (size[inner] != d->shape[inner]) {
        return false;
    }
    return !p->stride || size[outer] == 1 ||
           (zf_mul(d->shape[inner], p->stride[inner], &step) && p->stride[outer] == step);
}

/* Clears of may[d] what cannot be joined to the dimension before it. */
static void pieces_look(const struct zf_draft *d, const uint32_t *dim, uint32_t nd, bool *may,
                        struct joined *j)
{
    struct piece_walk walk = piece_walk(d);

    for (const struct piece *p; (p = piece_next(&walk));) {
        for (uint32_t k = 1; k < nd; k++) {
            may[k] = may[k] && pieces_joinable(d, p, dim[k - 1], dim[k]);
        }
        if (p->stride) {
            j->strided = true;
            j->by_bytes = j->by_bytes || (nd > 0 && p->stride[dim[nd - 1]] != 1 &&
                                          p->box[d->ndim + dim[nd - 1]] != 1);
        }
    }
}

static bool pieces_join(const struct zf_draft *d, struct joined *j, struct zf_arena *scratch,
                        struct zf_err *err)
{
    uint32_t *dim = zf_arena_get(scratch, d->ndim, sizeof *dim, err);
    bool *may = dim ? zf_arena_get(scratch, (uint64_t)d->ndim + 1, sizeof *may, err) : NULL;
    uint32_t nd = 0;

    if (!may) {
        return false;
    }
    for (uint32_t i = 0; i < d->ndim; i++) {
        if (d->shape[i] != 1) {
            may[nd] = nd > 0;
            dim[nd++] = i;
        }
    }
    pieces_look(d, dim, nd, may, j);
    for (uint32_t k = 0; k < nd; k++) {
        if (may[k]) {
            j->shape[j->nd - 1] *= d->shape[dim[k]];
            j->last[j->nd - 1] = dim[k];
            continue;
        }
        if (j->nd == ZF_BOX_DIMS - 1) {
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                           "tensor \"%.120s\" is cut in %u dimensions or more", draft_name(d),
                           j->nd + 1);
        }
        j->first[j->nd] = j->last[j->nd] = dim[k];
        j->shape[j->nd++] = d->shape[dim[k]];
    }
    return true;
}

/* One box of the draft as row i of `out`. */
static void pieces_put_box(const struct zf_draft *d, const struct piece *p, const struct joined *j,
                           struct boxes *out, uint32_t i)
{
    uint64_t *start = out->start + (uint64_t)i * out->nd, *size = out->size + (uint64_t)i * out->nd;
    uint64_t elem = zf_dtype_info(d->dtype)->bytes;

    for (uint32_t k = 0; k < j->nd; k++) {
        start[k] = 0;
        size[k] = 1;
        for (uint32_t t = j->first[k]; t <= j->last[k]; t++) {
            start[k] = start[k] * d->shape[t] + p->box[t];
            size[k] *= p->box[d->ndim + t];
        }
        if (p->stride) {
            out->stride[(uint64_t)i * out->nd + k] = p->stride[j->last[k]] * elem;
        }
    }
    uint32_t last = out->nd - 1;
    if (j->by_bytes || j->nd == 0) {
        start[last] = 0;
        size[last] = elem;
    } else {
        start[last] *= elem;
        size[last] *= elem;
    }
    if (p->stride) {
        out->stride[(uint64_t)i * out->nd + last] = 1;
        out->strided[i] = true;
    }
    out->off[i] = p->off;
    out->src[i] = (uint32_t)p->src;
}

static bool pieces_make_boxes(const struct zf_draft *d, const struct joined *j, struct boxes *out,
                              struct zf_arena *scratch, struct zf_err *err)
{
    uint64_t n = d->n_pieces;
    uint64_t elem = zf_dtype_info(d->dtype)->bytes;

    out->nd = j->by_bytes || j->nd == 0 ? j->nd + 1 : j->nd;
    out->n = 0;
    memcpy(out->shape, j->shape, sizeof j->shape);
    out->shape[out->nd - 1] = out->nd > j->nd ? elem : j->shape[j->nd - 1] * elem;
    if (!(out->start = zf_arena_get(scratch, n * out->nd, sizeof *out->start, err)) ||
        !(out->size = zf_arena_get(scratch, n * out->nd, sizeof *out->size, err)) ||
        !(out->off = zf_arena_get(scratch, n, sizeof *out->off, err)) ||
        !(out->src = zf_arena_get(scratch, n, sizeof *out->src, err))) {
        return false;
    }
    if (j->strided && (!(out->stride = zf_arena_get(scratch, n * out->nd, 8, err)) ||
                       !(out->strided = zf_arena_get(scratch, n, sizeof(bool), err)))) {
        return false;
    }
    struct piece_walk walk = piece_walk(d);
    for (const struct piece *p; (p = piece_next(&walk));) {
        pieces_put_box(d, p, j, out, out->n++);
    }
    return true;
}

/* ---- boxes -------------------------------------------------------------------------------- */

static bool pieces_flat_boxes(struct zf_draft *d, const struct boxes *box, struct zf_arena *scratch,
                              struct zf_err *err)
{
    struct flat_piece *p = zf_arena_get(scratch, box->n, sizeof *p, err);

    if (!p) {
        return false;
    }
    for (uint32_t i = 0; i < box->n; i++) {
        p[i] = (struct flat_piece){
            .first = box->start[i], .len = box->size[i], .off = box->off[i], .src = box->src[i]};
    }
    return pieces_flat_map(d, p, box->n, scratch, err);
}

static bool pieces_box_draft(struct zf_draft *d, struct zf_arena *scratch, struct zf_err *err)
{
    struct joined *j = zf_arena_get(scratch, 1, sizeof *j, err);
    struct boxes *box = j ? zf_arena_get(scratch, 1, sizeof *box, err) : NULL;

    if (!box || !pieces_join(d, j, scratch, err) || !pieces_make_boxes(d, j, box, scratch, err)) {
        return false;
    }
    if (box->nd == 1) {
        /* One dimension with stride 1 everywhere is flat. */
        return pieces_flat_boxes(d, box, scratch, err);
    }
    struct grid_make make = {.keep = d->b->keep,
                             .scratch = scratch,
                             .sources = d->b->sources,
                             .box = box,
                             .max_cells = d->b->lim.grid_cells};
    struct fault fault;
    struct zf_map *map = NULL;
    if (!grid_make(&make, &fault, &map, err)) {
        return false;
    }
    if (fault.kind != ZF_FAULT_NONE) {
        if (!d->b->degraded) {
            return pieces_tell(d, fault, err);
        }
        if (!pieces_lose(d, fault, &make.lost, err) || !grid_mend(&make, &map, err)) {
            return false;
        }
    }
    d->map = map;
    return grid_keep(map, d->b->sources, d->b->keep, &d->b->lim, err);
}

/* ---- slots -------------------------------------------------------------------------------- */

/* A rule with a fault is made into pieces when degraded, which then are mended like others. */
static bool pieces_slots_draft(struct zf_draft *d, struct zf_arena *scratch, struct zf_err *err)
{
    struct fault fault = slots_prove(d->slots, draft_bytes(d));

    if (fault.kind == ZF_FAULT_NONE) {
        d->map = slots_map(d->b->keep, d->b->sources, d->slots, draft_bytes(d), err);
        return d->map != NULL;
    }
    if (!d->b->degraded) {
        return pieces_tell(d, fault, err);
    }
    return draft_expand(d, err) && pieces_flat_draft(d, scratch, err);
}

/* One piece that is all of it covers it exactly once. */
static bool pieces_whole_draft(struct zf_draft *d, struct zf_err *err)
{
    const struct sources *t = d->b->sources;

    d->map = d->whole.src == 0 ? map_of_zeros(d->b->keep, draft_bytes(d), err)
                               : zf_map_of_source(d->b->keep, t->at[d->whole.src], d->whole.off,
                                                  draft_bytes(d), err);
    return d->map != NULL;
}

bool draft_prove(struct zf_draft *d, struct zf_err *err)
{
    if (d->kind == ZF_DRAFT_MEM) {
        d->map = zf_map_of_mem(d->b->keep, d->mem, draft_bytes(d), err);
        return d->map != NULL;
    }
    if (draft_bytes(d) == 0) {
        d->map = map_of_zeros(d->b->keep, 0, err);
        return d->map != NULL;
    }
    if (d->kind == ZF_DRAFT_WHOLE) {
        return pieces_whole_draft(d, err);
    }
    zf_auto(arena) struct zf_arena *scratch = zf_arena_new(d->b->lim.model_memory, err);
    if (!scratch) {
        return false;
    }
    if (d->kind == ZF_DRAFT_SLOTS) {
        return pieces_slots_draft(d, scratch, err);
    }
    return d->kind == ZF_DRAFT_BOX ? pieces_box_draft(d, scratch, err)
                                   : pieces_flat_draft(d, scratch, err);
}
