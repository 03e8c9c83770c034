/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "grid_kind.h"

/* A read that crosses the end of a row and touches more cells than this is split in two, so that it
 * does not visit all cells of both rows. */
#define MANY_CELLS 64

void grid_box(const struct grid *g, uint32_t i, struct box *out)
{
    out->src = g->sources->at[g->src[i]];
    out->off = g->off[i];
    out->packed = !g->strided || !g->strided[i];
    out->nd = g->nd;
    out->tensor_stride = g->tensor_stride;
    out->tensor_shape = g->shape;
    uint32_t lo = g->lo ? g->lo[i] : i, hi = g->hi ? g->hi[i] : i;
    for (uint32_t d = g->nd; d-- > 0;) {
        if (g->cut) {
            uint32_t n = g->n_cells[d];

            out->start[d] = g->cut[d][lo % n];
            out->size[d] = g->cut[d][hi % n + 1] - out->start[d];
            lo /= n;
            hi /= n;
        } else {
            out->start[d] = g->start[(uint64_t)i * g->nd + d];
            out->size[d] = g->size[(uint64_t)i * g->nd + d];
        }
        if (!out->packed)
            out->stride[d] = g->stride[(uint64_t)i * g->nd + d];
    }
    box_measure(out);
}

/* ---- which boxes touch a region ----------------------------------------------------------- */

/* A region of the tensor, given by its corners (inclusive), and a walk over the boxes that touch it,
 * each once. */
struct map_grid_walk {
    const struct grid *g;
    uint64_t lo[ZF_BOX_DIMS], hi[ZF_BOX_DIMS];
    uint32_t first[ZF_BOX_DIMS], last[ZF_BOX_DIMS], at[ZF_BOX_DIMS]; /* cells */
    bool done;
    struct boxtree_walk tree;
    uint32_t pos, end;
};

static void map_grid_walk_init(struct map_grid_walk *w, const struct grid *g)
{
    w->g = g;
    w->done = false;
    w->pos = w->end = 0;
    if (!g->cut) {
        boxtree_walk_init(&w->tree, g->tree, w->lo, w->hi);
        return;
    }
    for (uint32_t d = 0; d < g->nd; d++) {
        w->first[d] = (uint32_t)map_search(g->cut[d], g->n_cells[d], w->lo[d]);
        w->last[d] = (uint32_t)map_search(g->cut[d], g->n_cells[d], w->hi[d]);
        w->at[d] = w->first[d];
    }
}

/* A box of several cells is visited at the first of its cells in the walk. */
static bool map_grid_is_first_cell(const struct map_grid_walk *w, uint32_t box)
{
    uint32_t lo = w->g->lo[box];

    for (uint32_t d = w->g->nd; d-- > 0;) {
        uint32_t begin = lo % w->g->n_cells[d];

        if (w->at[d] != (begin > w->first[d] ? begin : w->first[d]))
            return false;
        lo /= w->g->n_cells[d];
    }
    return true;
}

static bool map_grid_next_cell(struct map_grid_walk *w, uint32_t *box_out)
{
    const struct grid *g = w->g;

    while (!w->done) {
        uint32_t cell = 0;

        for (uint32_t d = 0; d < g->nd; d++)
            cell = cell * g->n_cells[d] + w->at[d];
        uint32_t box = g->cell ? g->cell[cell] : cell;
        bool hit = !g->cell || map_grid_is_first_cell(w, box);
        uint32_t d = g->nd;
        while (d > 0 && w->at[d - 1] == w->last[d - 1]) {
            w->at[d - 1] = w->first[d - 1];
            d--;
        }
        if (d == 0)
            w->done = true;
        else
            w->at[d - 1]++;
        if (hit) {
            *box_out = box;
            return true;
        }
    }
    return false;
}

static bool map_grid_next_in_tree(struct map_grid_walk *w, uint32_t *box_out)
{
    const struct grid *g = w->g;

    for (;;) {
        for (; w->pos < w->end; w->pos++) {
            uint64_t row = (uint64_t)w->pos * g->nd;

            if (boxtree_touches(g->nd, g->start + row, g->size + row, w->lo, w->hi)) {
                *box_out = w->pos++;
                return true;
            }
        }
        if (!boxtree_walk_next(&w->tree, &w->pos, &w->end))
            return false;
    }
}

static bool map_grid_walk_next(struct map_grid_walk *w, uint32_t *box_out)
{
    return w->g->cut ? map_grid_next_cell(w, box_out) : map_grid_next_in_tree(w, box_out);
}

/* ---- the map ------------------------------------------------------------------------------ */

static struct zf_run grid_at(const struct zf_map *m, uint64_t off)
{
    const struct grid *g = (const struct grid *)m;
    struct map_grid_walk w;
    struct box box;
    uint32_t i, last = g->nd - 1;

    box_coordinates(g->nd, g->tensor_stride, off, w.lo);
    memcpy(w.hi, w.lo, g->nd * sizeof *w.hi);
    map_grid_walk_init(&w, g);
    if (!map_grid_walk_next(&w, &i)) {
        /* Only the tree of a degraded tensor has holes. */
        return (struct zf_run){.kind = ZF_RUN_MADE, .len = 1};
    }
    grid_box(g, i, &box);
    uint64_t len = box.start[last] + box.size[last] - w.lo[last];
    if (!box.src)
        return (struct zf_run){.kind = ZF_RUN_ZERO, .len = len};
    return (struct zf_run){
        .kind = ZF_RUN_SRC, .len = len, .src = box.src, .off = box_place(&box, w.lo)};
}

/* Sets w to the smallest region that contains bytes [off, off + n); returns the number of bytes to
 * read at once, at most n. */
static uint64_t map_grid_region(struct map_grid_walk *w, const struct grid *g, uint64_t off,
                                uint64_t n)
{
    uint32_t d = 0;

    box_coordinates(g->nd, g->tensor_stride, off, w->lo);
    box_coordinates(g->nd, g->tensor_stride, off + n - 1, w->hi);
    while (d + 1 < g->nd && w->lo[d] == w->hi[d])
        d++;
    if (g->n > MANY_CELLS && d + 1 < g->nd && w->hi[d] - w->lo[d] == 1 && n < g->tensor_stride[d]) {
        n = g->tensor_stride[d] - off % g->tensor_stride[d];
        return map_grid_region(w, g, off, n);
    }
    for (d++; d < g->nd; d++) {
        w->lo[d] = 0;
        w->hi[d] = g->shape[d] - 1;
    }
    return n;
}

/* The boxes of a region, one after the other, and which of its own bytes each has in it. */
struct map_grid_visit {
    uint64_t from[ZF_BOX_DIMS], to[ZF_BOX_DIMS], lo, hi;
    struct map_grid_walk walk;
    struct box box;
    uint32_t i; /* which box of the grid */
};

/* Begins at byte off of at most *n; *n is the length of the region. */
static void map_grid_visit_begin(struct map_grid_visit *v, const struct grid *g, uint64_t off,
                                 uint64_t *n)
{
    *n = map_grid_region(&v->walk, g, off, *n);
    box_coordinates(g->nd, g->tensor_stride, off, v->from);
    box_coordinates(g->nd, g->tensor_stride, off + *n, v->to);
    map_grid_walk_init(&v->walk, g);
}

static bool map_grid_visit_next(struct map_grid_visit *v, const struct grid *g)
{
    if (!map_grid_walk_next(&v->walk, &v->i))
        return false;
    grid_box(g, v->i, &v->box);
    v->lo = box_rank(&v->box, v->from);
    v->hi = box_rank(&v->box, v->to);
    return true;
}

/* Less than this of a box is read by itself: who reads here and there would pay for whole blocks. */
#define KEPT_MIN (64u << 10)

/* The bytes of the box that is visited.  Where a block that would be kept (grid_kind.h) cannot be
 * read as a whole, because some of it is lost, only what is wanted counts. */
static bool map_grid_read_box(const struct grid *g, const struct map_grid_visit *v,
                              unsigned char *buf, uint64_t off, struct scratch *scratch,
                              struct zf_err *err)
{
    if (g->kept && g->kept[v->i] && v->hi - v->lo >= KEPT_MIN) {
        struct box whole = v->box;

        whole.src = g->sources->at[g->kept[v->i]];
        whole.off = 0;
        whole.packed = true;
        box_measure(&whole);
        if (box_read(&whole, v->lo, v->hi, buf, off, scratch, err))
            return true;
    }
    return box_read(&v->box, v->lo, v->hi, buf, off, scratch, err);
}

static bool map_grid_read_region(const struct grid *g, unsigned char *buf, uint64_t *n,
                                 uint64_t off, struct zf_err *err)
{
    zf_auto(scratch) struct scratch scratch = {0};
    struct map_grid_visit v;
    uint64_t done = 0;

    map_grid_visit_begin(&v, g, off, n);
    while (map_grid_visit_next(&v, g)) {
        if (v.lo < v.hi && !map_grid_read_box(g, &v, buf, off, &scratch, err))
            return false;
        done += v.hi - v.lo;
    }
    if (done != *n) {
        return zf_fail(err, ZF_E_IO, off, "%llu of %llu bytes are covered by no piece",
                       (unsigned long long)(*n - done), (unsigned long long)*n);
    }
    return true;
}

/* Size of the buffer where rows are short. */
#define READ_STEP ZF_BUFFER_BYTES

static bool grid_read(const struct zf_map *m, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    const struct grid *g = (const struct grid *)m;
    unsigned char *out = buf;

    while (n > 0) {
        uint64_t k = n < READ_STEP ? n : READ_STEP;

        if (!map_grid_read_region(g, out, &k, off, err))
            return false;
        out += k;
        off += k;
        n -= (size_t)k;
    }
    return true;
}

static bool grid_each(const struct zf_map *m, map_each_fn *fn, void *ctx)
{
    const struct grid *g = (const struct grid *)m;
    struct box box;

    for (uint32_t i = 0; i < g->n; i++) {
        grid_box(g, i, &box);
        if (box.src && !fn(ctx, box.src, box.off, box_span(&box)))
            return false;
    }
    return true;
}

static bool grid_extents(const struct zf_map *m, zf_map_extent_fn *fn, void *ctx)
{
    const struct grid *g = (const struct grid *)m;
    struct box box;
    bool go_on = true;

    for (uint32_t i = 0; go_on && i < g->n; i++) {
        grid_box(g, i, &box);
        go_on = fn(ctx, &(struct zf_extent){.src = box.src,
                                            .off = box.off,
                                            .nd = g->nd,
                                            .shape = g->shape,
                                            .start = box.start,
                                            .size = box.size,
                                            .stride = box.packed ? NULL : box.stride});
    }
    return go_on;
}

/* What is visited of the box. */
static bool map_grid_box_ranges(const struct grid *g, const struct map_grid_visit *v,
                                map_each_fn *fn, void *ctx)
{
    const struct box *b = &v->box;

    if (!b->src || v->lo >= v->hi)
        return true;
    if (g->kept && g->kept[v->i] && !zf_source_is_far(b->src))
        return fn(ctx, g->sources->at[g->kept[v->i]], v->lo, v->hi - v->lo);
    return b->packed ? fn(ctx, b->src, b->off + v->lo, v->hi - v->lo)
                     : box_ranges(b, v->lo, v->hi, fn, ctx);
}

static bool map_grid_region_ranges(const struct grid *g, uint64_t *n, uint64_t off, map_each_fn *fn,
                                   void *ctx)
{
    struct map_grid_visit v;

    map_grid_visit_begin(&v, g, off, n);
    while (map_grid_visit_next(&v, g))
        if (!map_grid_box_ranges(g, &v, fn, ctx))
            return false;
    return true;
}

/* A stretch of many rows is taken in steps, so that what is needed first is asked for first: a box has a
 * little of every row. */
#define RANGES_STEP (4ull << 20)

static bool grid_ranges(const struct zf_map *m, uint64_t off, uint64_t n, map_each_fn *fn,
                        void *ctx)
{
    const struct grid *g = (const struct grid *)m;

    while (n > 0) {
        uint64_t k = n < RANGES_STEP ? n : RANGES_STEP;

        if (!map_grid_region_ranges(g, &k, off, fn, ctx))
            return false;
        off += k;
        n -= k;
    }
    return true;
}

const struct map_ops grid_ops = {
    .at = grid_at,
    .read = grid_read,
    .each = grid_each,
    .extents = grid_extents,
    .ranges = grid_ranges,
};
