/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the map of a draft from its pieces: ranges of bytes by map_flat.c, boxes by grid_prove.c
 * (dimensions that all boxes cover completely are joined first), parts of other tensors by
 * map_parts.c, and rules by map_slots.c; each proves that the pieces cover the tensor exactly once.
 * In a map for reading before the seal, a hole or overlap is not a failure: these bytes come from
 * sources whose reads fail with the reason. */
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "draft.h"
#include "map_flat.h"
#include "map_grid.h"
#include "map_kind.h"
#include "map_slots.h"
#include "boxes.h"

/* ---- messages ----------------------------------------------------------------------------- */

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

/* Reports the fault in *err, in the file of the tensor's metadata. */
static bool pieces_report(const struct zf_draft *d, struct fault f, struct zf_err *err)
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

/* The making of a map. */
struct making {
    struct zf_draft *d;
    struct zf_arena *keep, *scratch; /* for the map; for temporary data */
    bool reading;                    /* before the seal: faults get sources, d is not changed */
};

/* The sources of bytes that the pieces do not cover exactly once.  Errors: ZF_E_FORMAT the tensor is refused. */
static bool pieces_mend(const struct making *m, struct fault f, struct mend *out,
                        struct zf_err *err)
{
    struct zf_draft *d = m->d;
    char text[800];

    if (m->reading) {
        *out = (struct mend){SOURCES_NONE, SOURCES_SEVERAL};
        return true;
    }
    (void)pieces_report(d, f, err);
    if (!d->b->degraded)
        return false;
    (void)zf_err_text(err, text, sizeof text);
    zf_err_clear(err);
    if (!draft_lost_source(d, NULL, 0, draft_bytes(d), &(struct zf_lost){.why = text}, &out->none,
                           err))
        return false;
    out->several = out->none;
    return zf_build_note(d->b, err, "%s", text);
}

/* ---- flat --------------------------------------------------------------------------------- */

/* Proves the pieces; in degraded mode replaces faults by lost pieces.  NULL with err: the tensor is refused. */
static struct flat_piece *pieces_prove_flat(const struct making *m, struct flat_piece *p,
                                            uint64_t *n, struct zf_err *err)
{
    const uint64_t size = draft_bytes(m->d);
    struct fault fault = flat_prove(p, *n, size);
    struct mend with;

    if (fault.kind == ZF_FAULT_NONE)
        return p;
    return pieces_mend(m, fault, &with, err) ? flat_mend(p, *n, size, with, m->scratch, n, err)
                                             : NULL;
}

static struct zf_map *pieces_flat_map(const struct making *m, struct flat_piece *p, uint64_t n,
                                      struct zf_err *err)
{
    p = pieces_prove_flat(m, p, &n, err);
    return p ? flat_map(m->keep, m->d->b->sources, p, n, draft_bytes(m->d), err) : NULL;
}

/* ---- parts of other tensors --------------------------------------------------------------- */

/* In the proof, a part of another tensor is a piece like others.  Its source index, counted down from
 * the largest, is above those of all sources and identifies that tensor. */
static uint32_t pieces_part_number(uint64_t i)
{
    return UINT32_MAX - (uint32_t)i;
}

/* The map of one proved piece. */
static const struct zf_map *pieces_part_map(const struct making *m, const struct flat_piece *p,
                                            struct zf_draft *const *of, struct zf_err *err)
{
    const struct sources *t = m->d->b->sources;
    struct zf_loss loss;

    if (p->src == SOURCES_ZEROS)
        return map_of_zeros(m->keep, p->len, err);
    if (p->src < t->n)
        return zf_map_of_source(m->keep, t->at[p->src], p->off, p->len, err);
    struct zf_draft *whole = of[pieces_part_number(p->src)];
    const struct zf_map *all = m->reading ? draft_map_so_far(whole, m->keep, err) : whole->map;
    const struct zf_map *map = all ? zf_map_slice(m->keep, all, p->off, p->len, err) : NULL;
    if (map && !m->reading && whole->lost && zf_map_loss(map, 0, &loss)) {
        m->d->lost = true;
        m->d->unshaped = m->d->unshaped || whole->unshaped;
    }
    return map;
}

static const struct zf_map *pieces_parts_map(const struct making *m, struct flat_piece *p,
                                             uint64_t n, struct zf_draft *const *of,
                                             struct zf_err *err)
{
    p = pieces_prove_flat(m, p, &n, err);
    const struct zf_map **part = p ? zf_arena_get(m->scratch, n, sizeof(*part), err) : NULL;

    for (uint64_t i = 0; part && i < n; i++)
        if (!(part[i] = pieces_part_map(m, &p[i], of, err)))
            return NULL;
    if (part && n == 1)
        return part[0]; /* a slice: a slice of d then needs only that map */
    return part ? zf_map_of_parts(m->keep, part, n, err) : NULL;
}

static const struct zf_map *pieces_flat_draft(const struct making *m, struct zf_err *err)
{
    const struct zf_draft *d = m->d;
    const uint64_t elem = zf_dtype_info(d->dtype)->bytes, room = d->n_pieces + draft_slots_ruled(d);
    struct flat_piece *p = zf_arena_get(m->scratch, room, sizeof *p, err);
    struct zf_draft **of =
        p ? zf_arena_get(m->scratch, d->parts ? room : 0, sizeof(*of), err) : NULL;
    struct piece_walk walk = piece_walk(d);
    uint64_t n = 0, n_of = 0;

    if (!of)
        return NULL;
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
    return n_of > 0 ? pieces_parts_map(m, p, n, of, err) : pieces_flat_map(m, p, n, err);
}

/* ---- joining dimensions ------------------------------------------------------------------- */

/* The dimensions left after joining.  Those of size 1 are dropped (boxes start at 0 in them), and a
 * dimension that every box covers completely is joined to the one before it. */
struct joined {
    uint32_t nd;                 /* number of dimensions, in elements */
    uint32_t first[ZF_BOX_DIMS]; /* [nd] outermost dimension of the tensor in it */
    uint32_t last[ZF_BOX_DIMS];  /* [nd] innermost one */
    uint64_t shape[ZF_BOX_DIMS];
    bool by_bytes; /* elements of some box are not contiguous: bytes get a dimension of their own */
    bool strided;  /* some box has strides */
};

static bool pieces_joinable(const struct zf_draft *d, const struct piece *p, uint32_t outer,
                            uint32_t inner)
{
    const uint64_t *size = p->box + d->ndim;
    uint64_t step;

    if (size[inner] != d->shape[inner])
        return false;
    return !p->stride || size[outer] == 1 ||
           (zf_mul(d->shape[inner], p->stride[inner], &step) && p->stride[outer] == step);
}

/* Clears may[d] for each dimension that cannot be joined to the one before it. */
static void pieces_look(const struct zf_draft *d, const uint32_t *dim, uint32_t nd, bool *may,
                        struct joined *j)
{
    struct piece_walk walk = piece_walk(d);

    for (const struct piece *p; (p = piece_next(&walk));) {
        for (uint32_t k = 1; k < nd; k++)
            may[k] = may[k] && pieces_joinable(d, p, dim[k - 1], dim[k]);
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

    if (!may)
        return false;
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

/* Stores a box of the draft as row i of `out`. */
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
        if (p->stride)
            out->stride[(uint64_t)i * out->nd + k] = p->stride[j->last[k]] * elem;
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
        !(out->src = zf_arena_get(scratch, n, sizeof *out->src, err)))
        return false;
    if (j->strided && (!(out->stride = zf_arena_get(scratch, n * out->nd, 8, err)) ||
                       !(out->strided = zf_arena_get(scratch, n, sizeof(bool), err))))
        return false;
    struct piece_walk walk = piece_walk(d);
    for (const struct piece *p; (p = piece_next(&walk));)
        pieces_put_box(d, p, j, out, out->n++);
    return true;
}

/* ---- boxes -------------------------------------------------------------------------------- */

static struct zf_map *pieces_box_draft(const struct making *m, struct zf_err *err)
{
    struct zf_build *b = m->d->b;
    struct joined *j = zf_arena_get(m->scratch, 1, sizeof *j, err);
    struct boxes *box = j ? zf_arena_get(m->scratch, 1, sizeof *box, err) : NULL;

    if (!box || !pieces_join(m->d, j, m->scratch, err) ||
        !pieces_make_boxes(m->d, j, box, m->scratch, err))
        return NULL;
    struct grid_make make = {.keep = m->keep,
                             .scratch = m->scratch,
                             .sources = b->sources,
                             .box = box,
                             .max_cells = b->lim.grid_cells};
    struct fault fault;
    struct zf_map *map = NULL;
    if (!grid_make(&make, &fault, &map, err))
        return NULL;
    if (fault.kind != ZF_FAULT_NONE &&
        (!pieces_mend(m, fault, &make.mend, err) || !grid_mend(&make, &map, err)))
        return NULL;
    return m->reading || grid_keep(map, b->sources, m->keep, &b->lim, err) ? map : NULL;
}

/* ---- all kinds ---------------------------------------------------------------------------- */

/* The map of a rule; with a fault, its slots become pieces and are treated like others. */
static const struct zf_map *pieces_slots_draft(const struct making *m, struct zf_err *err)
{
    const struct zf_draft *d = m->d;
    struct fault fault = slots_prove(d->slots, draft_bytes(d));

    if (fault.kind == ZF_FAULT_NONE)
        return slots_map(m->keep, d->b->sources, d->slots, draft_bytes(d), err);
    if (!m->reading && !d->b->degraded)
        return zf_null(pieces_report(d, fault, err));
    return pieces_flat_draft(m, err);
}

/* A single piece that is the whole tensor covers it exactly once. */
static struct zf_map *pieces_whole_draft(const struct making *m, struct zf_err *err)
{
    const struct zf_draft *d = m->d;
    struct zf_source *src = d->b->sources->at[d->whole.src];

    return src ? zf_map_of_source(m->keep, src, d->whole.off, draft_bytes(d), err)
               : map_of_zeros(m->keep, draft_bytes(d), err);
}

static const struct zf_map *pieces_map(struct zf_draft *d, struct zf_arena *keep, bool reading,
                                       struct zf_err *err)
{
    struct making m = {.d = d, .keep = keep, .reading = reading};

    if (d->kind == ZF_DRAFT_MEM)
        return zf_map_of_mem(keep, d->mem, draft_bytes(d), err);
    if (draft_bytes(d) == 0)
        return map_of_zeros(keep, 0, err);
    if (d->kind == ZF_DRAFT_WHOLE)
        return pieces_whole_draft(&m, err);
    zf_auto(arena) struct zf_arena *scratch = zf_arena_new(d->b->lim.model_memory, err);
    if (!(m.scratch = scratch))
        return NULL;
    return d->kind == ZF_DRAFT_SLOTS ? pieces_slots_draft(&m, err)
           : d->kind == ZF_DRAFT_BOX ? pieces_box_draft(&m, err)
                                     : pieces_flat_draft(&m, err);
}

bool draft_prove(struct zf_draft *d, struct zf_err *err)
{
    d->map = pieces_map(d, d->b->keep, false, err);
    return d->map != NULL;
}

const struct zf_map *draft_map_so_far(struct zf_draft *d, struct zf_arena *a, struct zf_err *err)
{
    struct zf_build *b = d->b;

    if (d->parts) {
        /* The tensors that its parts refer to may still get pieces. */
        return pieces_map(d, a, true, err);
    }
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&b->reading);
    return d->map ? d->map : (d->map = pieces_map(d, b->maps, true, err));
}
