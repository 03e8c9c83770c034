/* SPDX-License-Identifier: Apache-2.0 */
/* Filling the table of cells proves the coverage: a cell filled twice is an overlap, a cell never
 * filled a hole.  Afterwards the table is the index. */
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>

#include "grid_kind.h"
#include "map_grid.h"

#define NONE UINT32_MAX
#define TWICE (UINT32_MAX - 1)
#define MAX_CELLS (UINT32_MAX - 2)
/* A table with more cells per box than this costs more than the tree; small tables are always fine. */
#define CELLS_PER_BOX 8
#define SMALL_TABLE 65536

/* The cells of a tensor during the proof. */
struct cells {
    uint64_t *cut[ZF_BOX_DIMS];   /* [n + 1], keep */
    uint32_t n[ZF_BOX_DIMS];      /* cells per dimension */
    uint64_t stride[ZF_BOX_DIMS]; /* bytes of the tensor */
    uint32_t total;
    uint32_t *owner; /* [total] box, NONE or TWICE; scratch */
};

static int grid_by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The sorted, distinct cuts of dimension d; *n_out: their number. */
static uint64_t *grid_cuts_of(const struct grid_make *m, uint32_t d, uint64_t *n_out,
                              struct zf_err *err)
{
    const struct boxes *box = m->box;
    uint64_t *all = zf_arena_get(m->scratch, 2 * (uint64_t)box->n + 2, sizeof *all, err);
    uint64_t n = 0, k = 0;

    if (!all)
        return NULL;
    all[n++] = 0;
    all[n++] = box->shape[d];
    for (uint32_t i = 0; i < box->n; i++) {
        uint64_t start = box->start[(uint64_t)i * box->nd + d];
        uint64_t end = start + box->size[(uint64_t)i * box->nd + d];

        /* Boxes of one row are often consecutive: leaving out repeats saves half of the sorting. */
        if (n < 4 || all[n - 2] != start || all[n - 1] != end) {
            all[n++] = start;
            all[n++] = end;
        }
    }
    qsort(all, (size_t)n, sizeof *all, grid_by_number);
    for (uint64_t i = 1; i < n; i++)
        if (all[i] != all[k])
            all[++k] = all[i];
    *n_out = k + 1;
    return all;
}

/* Makes empty cells; *fits_out: false if there would be too many. */
static bool grid_make_cells(const struct grid_make *m, struct cells *c, bool *fits_out,
                            struct zf_err *err)
{
    uint64_t total = 1, n;
    uint64_t max = (uint64_t)m->box->n * CELLS_PER_BOX;

    max = max < SMALL_TABLE ? SMALL_TABLE : max;
    max = max > m->max_cells ? m->max_cells : max;
    max = max > MAX_CELLS ? MAX_CELLS : max;
    zf_packed_strides(m->box->nd, m->box->shape, c->stride);
    for (uint32_t d = 0; d < m->box->nd; d++) {
        c->cut[d] = grid_cuts_of(m, d, &n, err);
        if (!c->cut[d])
            return false;
        *fits_out = zf_mul(total, n - 1, &total) && total <= max;
        if (!*fits_out)
            return true;
        c->n[d] = (uint32_t)(n - 1);
    }
    c->total = (uint32_t)total;
    c->owner = zf_arena_get(m->scratch, total, sizeof *c->owner, err);
    if (!c->owner)
        return false;
    for (uint32_t i = 0; i < c->total; i++)
        c->owner[i] = NONE;
    return true;
}

/* The corner cells of a box. */
static void grid_corners(const struct boxes *box, const struct cells *c, uint32_t i,
                         uint32_t *first, uint32_t *last)
{
    for (uint32_t d = 0; d < box->nd; d++) {
        uint64_t start = box->start[(uint64_t)i * box->nd + d];
        uint64_t end = start + box->size[(uint64_t)i * box->nd + d];

        first[d] = (uint32_t)map_search(c->cut[d], c->n[d], start);
        last[d] = (uint32_t)map_search(c->cut[d], c->n[d], end - 1);
    }
}

static uint32_t grid_cell_number(const struct cells *c, uint32_t nd, const uint32_t *at)
{
    uint32_t cell = 0;

    for (uint32_t d = 0; d < nd; d++)
        cell = cell * c->n[d] + at[d];
    return cell;
}

/* Advances to the next cell between two corners; false after the last. */
static bool grid_next_cell(uint32_t nd, uint32_t *at, const uint32_t *first, const uint32_t *last)
{
    for (uint32_t d = nd; d-- > 0;) {
        if (at[d] < last[d]) {
            at[d]++;
            return true;
        }
        at[d] = first[d];
    }
    return false;
}

static void grid_cell_at(const struct cells *c, uint32_t nd, uint32_t cell, uint32_t *at)
{
    for (uint32_t d = nd; d-- > 0;) {
        at[d] = cell % c->n[d];
        cell /= c->n[d];
    }
}

static struct fault grid_cell_fault(const struct boxes *box, const struct cells *c, uint32_t cell,
                                    enum fault_kind kind)
{
    struct fault f = {kind, 0, 0};
    uint32_t at[ZF_BOX_DIMS];

    grid_cell_at(c, box->nd, cell, at);
    for (uint32_t d = 0; d < box->nd; d++) {
        f.first += c->cut[d][at[d]] * c->stride[d];
        f.last += (c->cut[d][at[d] + 1] - 1) * c->stride[d];
    }
    return f;
}

/* Enters box i into its cells; a fault at the first cell that is taken, unless `mark`: then overlaps
 * are only marked. */
static struct fault grid_fill_box(const struct boxes *box, struct cells *c, uint32_t i, bool mark,
                                  uint64_t *work)
{
    uint32_t first[ZF_BOX_DIMS], last[ZF_BOX_DIMS], at[ZF_BOX_DIMS];

    grid_corners(box, c, i, first, last);
    memcpy(at, first, sizeof at);
    do {
        uint32_t cell = grid_cell_number(c, box->nd, at);

        if (c->owner[cell] == NONE)
            c->owner[cell] = i;
        else if (mark)
            c->owner[cell] = TWICE;
        else
            return grid_cell_fault(box, c, cell, ZF_FAULT_TWICE);
        ++*work;
    } while (grid_next_cell(box->nd, at, first, last));
    return (struct fault){ZF_FAULT_NONE, 0, 0};
}

static struct fault grid_prove_kind(const struct boxes *box, struct cells *c)
{
    uint64_t work = 0;

    for (uint32_t i = 0; i < box->n; i++) {
        struct fault f = grid_fill_box(box, c, i, false, &work);

        if (f.kind != ZF_FAULT_NONE)
            return f;
    }
    for (uint32_t i = 0; work < c->total && i < c->total; i++)
        if (c->owner[i] == NONE)
            return grid_cell_fault(box, c, i, ZF_FAULT_HOLE);
    return (struct fault){ZF_FAULT_NONE, 0, 0};
}

/* ---- the sealed map ----------------------------------------------------------------------- */

/* The arrays of a grid's boxes while they are filled; the map only reads them. */
struct grid_rows {
    uint32_t nd;
    uint64_t *off;    /* [n] */
    uint32_t *src;    /* [n] */
    uint64_t *stride; /* [n][nd] or NULL */
    bool *strided;    /* [n] or NULL */
};

/* A grid for n boxes with the tensor's shape, still without boxes; *rows: the arrays to fill. */
static struct grid *grid_new_grid(const struct grid_make *m, uint32_t n, bool strided,
                                  struct grid_rows *rows, struct zf_err *err)
{
    const struct boxes *box = m->box;
    struct grid *g = zf_arena_get(m->keep, 1, sizeof *g, err);
    uint64_t *step = g ? zf_arena_get(m->keep, box->nd, sizeof *step, err) : NULL;
    struct grid_rows r = {.nd = box->nd};

    if (!step || !(g->shape = zf_arena_copy(m->keep, box->shape, box->nd, sizeof *step, err)) ||
        !(r.off = zf_arena_get(m->keep, n, sizeof *r.off, err)) ||
        !(r.src = zf_arena_get(m->keep, n, sizeof *r.src, err)))
        return NULL;
    if (strided && (!(r.stride = zf_arena_get(m->keep, n, box->nd * sizeof *r.stride, err)) ||
                    !(r.strided = zf_arena_get(m->keep, n, sizeof *r.strided, err))))
        return NULL;
    zf_packed_strides(box->nd, box->shape, step);
    g->tensor_stride = step;
    g->map = (struct zf_map){.ops = &grid_ops, .size = box->shape[0] * step[0]};
    g->sources = m->sources;
    g->nd = box->nd;
    g->n = n;
    g->off = r.off;
    g->src = r.src;
    g->stride = r.stride;
    g->strided = r.strided;
    *rows = r;
    return g;
}

/* Box i of the input becomes box `to` of the grid. */
static void grid_put_box(const struct boxes *box, uint32_t i, const struct grid_rows *r,
                         uint32_t to)
{
    r->off[to] = box->off[i];
    r->src[to] = box->src[i];
    if (box->strided) {
        r->strided[to] = box->strided[i];
        memcpy(r->stride + (uint64_t)to * r->nd, box->stride + (uint64_t)i * r->nd,
               r->nd * sizeof(uint64_t));
    }
}

static bool grid_keep_cuts(const struct grid_make *m, const struct cells *c, struct grid *g,
                           struct zf_err *err)
{
    const uint64_t **cut = zf_arena_get(m->keep, g->nd, sizeof(*cut), err);

    g->n_cells = cut ? zf_arena_copy(m->keep, c->n, g->nd, sizeof *c->n, err) : NULL;
    for (uint32_t d = 0; g->n_cells && d < g->nd; d++) {
        cut[d] = zf_arena_copy(m->keep, c->cut[d], (uint64_t)c->n[d] + 1, sizeof **cut, err);
        if (!cut[d])
            return false;
    }
    g->cut = cut;
    return g->n_cells != NULL;
}

/* The map where every box is one cell: boxes in the order of cells need no table. */
static struct zf_map *grid_even_grid(const struct grid_make *m, const struct cells *c,
                                     struct zf_err *err)
{
    struct grid_rows rows;
    struct grid *g = grid_new_grid(m, c->total, m->box->stride != NULL, &rows, err);

    if (!g || !grid_keep_cuts(m, c, g, err))
        return NULL;
    for (uint32_t i = 0; i < c->total; i++)
        grid_put_box(m->box, c->owner[i], &rows, i);
    return &g->map;
}

static struct zf_map *grid_uneven_grid(const struct grid_make *m, const struct cells *c,
                                       struct zf_err *err)
{
    const struct boxes *box = m->box;
    struct grid_rows rows;
    struct grid *g = grid_new_grid(m, box->n, box->stride != NULL, &rows, err);
    uint32_t *lo = g ? zf_arena_get(m->keep, box->n, sizeof *lo, err) : NULL;
    uint32_t *hi = lo ? zf_arena_get(m->keep, box->n, sizeof *hi, err) : NULL;

    if (!hi || !grid_keep_cuts(m, c, g, err) ||
        !(g->cell = zf_arena_copy(m->keep, c->owner, c->total, sizeof *c->owner, err)))
        return NULL;
    for (uint32_t i = 0; i < box->n; i++) {
        uint32_t first[ZF_BOX_DIMS], last[ZF_BOX_DIMS];

        grid_corners(box, c, i, first, last);
        lo[i] = grid_cell_number(c, box->nd, first);
        hi[i] = grid_cell_number(c, box->nd, last);
        grid_put_box(box, i, &rows, i);
    }
    g->lo = lo;
    g->hi = hi;
    return &g->map;
}

/* ---- the tree, for layouts with too many cells --------------------------------------------- */

/* The first other box that touches box `at` of the grid; `at` when there is none. */
static uint32_t grid_neighbour(const struct grid *g, uint32_t at)
{
    const uint64_t *start = g->start + (uint64_t)at * g->nd, *size = g->size + (uint64_t)at * g->nd;
    uint64_t hi[ZF_BOX_DIMS];
    struct boxtree_walk w;
    uint32_t i, end;

    for (uint32_t d = 0; d < g->nd; d++)
        hi[d] = start[d] + size[d] - 1;
    boxtree_walk_init(&w, g->tree, start, hi);
    while (boxtree_walk_next(&w, &i, &end)) {
        for (; i < end; i++) {
            uint64_t row = (uint64_t)i * g->nd;

            if (i != at && boxtree_touches(g->nd, g->start + row, g->size + row, start, hi))
                return i;
        }
    }
    return at;
}

static struct grid *grid_tree_grid(const struct grid_make *m, struct grid_rows *rows,
                                   struct zf_err *err)
{
    const struct boxes *box = m->box;
    uint64_t row = box->nd * sizeof(uint64_t);
    struct grid *g = grid_new_grid(m, box->n, box->stride != NULL, rows, err);
    uint32_t *order = g ? zf_arena_get(m->scratch, box->n, sizeof *order, err) : NULL;
    uint64_t *start = order ? zf_arena_get(m->keep, box->n, row, err) : NULL;
    uint64_t *size = start ? zf_arena_get(m->keep, box->n, row, err) : NULL;

    if (!size)
        return NULL;
    for (uint32_t i = 0; i < box->n; i++)
        order[i] = i;
    g->tree = boxtree_new(m->keep, box->nd, box->start, box->size, order, box->n, err);
    if (!g->tree)
        return NULL;
    for (uint32_t i = 0; i < box->n; i++) {
        grid_put_box(box, order[i], rows, i);
        memcpy(start + (uint64_t)i * box->nd, box->start + (uint64_t)order[i] * box->nd,
               (size_t)row);
        memcpy(size + (uint64_t)i * box->nd, box->size + (uint64_t)order[i] * box->nd, (size_t)row);
    }
    g->start = start;
    g->size = size;
    return g;
}

/* The number of bytes before byte `off` of the tensor that are inside some box. */
static uint64_t grid_covered(const struct grid *g, uint64_t off)
{
    uint64_t c[ZF_BOX_DIMS], n = 0;
    struct box box;

    box_coordinates(g->nd, g->tensor_stride, off, c);
    for (uint32_t i = 0; i < g->n; i++) {
        grid_box(g, i, &box);
        n += box_rank(&box, c);
    }
    return n;
}

static struct fault grid_overlap(const struct grid *g, uint32_t i, uint32_t j)
{
    struct fault f = {ZF_FAULT_TWICE, 0, 0};

    for (uint32_t d = 0; d < g->nd; d++) {
        uint64_t a = g->start[(uint64_t)i * g->nd + d], b = g->start[(uint64_t)j * g->nd + d];
        uint64_t ae = a + g->size[(uint64_t)i * g->nd + d],
                 be = b + g->size[(uint64_t)j * g->nd + d];

        f.first += (a > b ? a : b) * g->tensor_stride[d];
        f.last += ((ae < be ? ae : be) - 1) * g->tensor_stride[d];
    }
    return f;
}

/* Proves that no two boxes overlap, and that together they have as many bytes as the tensor. */
static struct fault prove_tree(const struct grid *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t j = grid_neighbour(g, i);

        if (j != i)
            return grid_overlap(g, i, j);
    }
    if (grid_covered(g, g->map.size) == g->map.size)
        return (struct fault){ZF_FAULT_NONE, 0, 0};
    /* Without overlaps, the first missing byte is the first at which fewer bytes are covered than lie before it. */
    uint64_t lo = 0, hi = g->map.size;
    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (grid_covered(g, mid) == mid)
            lo = mid;
        else
            hi = mid;
    }
    return (struct fault){ZF_FAULT_HOLE, lo, lo};
}

bool grid_make(const struct grid_make *m, struct fault *fault_out, struct zf_map **map_out,
               struct zf_err *err)
{
    struct cells *c = zf_arena_get(m->scratch, 1, sizeof *c, err);
    bool fits = false;

    if (!c || !grid_make_cells(m, c, &fits, err))
        return false;
    if (!fits) {
        struct grid_rows rows;
        struct grid *g = grid_tree_grid(m, &rows, err);

        if (!g)
            return false;
        *fault_out = prove_tree(g);
        *map_out = &g->map;
        return true;
    }
    *fault_out = grid_prove_kind(m->box, c);
    if (fault_out->kind != ZF_FAULT_NONE)
        return true;
    *map_out = c->total == m->box->n ? grid_even_grid(m, c, err) : grid_uneven_grid(m, c, err);
    return *map_out != NULL;
}

/* ---- degraded ----------------------------------------------------------------------------- */

/* One cell of a degraded tensor's grid: the part of its box that lies in it. */
static void grid_mend_cell(const struct grid_make *m, const struct cells *c,
                           const struct grid_rows *r, uint32_t cell)
{
    const struct boxes *box = m->box;
    uint64_t *stride = r->stride + (uint64_t)cell * r->nd;
    uint32_t owner = c->owner[cell], at[ZF_BOX_DIMS];

    if (owner == NONE || owner == TWICE) {
        r->src[cell] = owner == NONE ? m->mend.none : m->mend.several;
        return;
    }
    grid_cell_at(c, r->nd, cell, at);
    grid_put_box(box, owner, r, cell);
    if (!box->strided || !box->strided[owner])
        zf_packed_strides(r->nd, box->size + (uint64_t)owner * r->nd, stride);
    r->strided[cell] = true;
    for (uint32_t d = 0; d < r->nd; d++) {
        uint64_t in = c->cut[d][at[d]] - box->start[(uint64_t)owner * r->nd + d];

        r->off[cell] += in * stride[d];
    }
}

/* Overlapping boxes are lost as a whole, because nothing tells which of them is right. */
static bool grid_mend_tree(const struct grid_make *m, struct zf_map **map_out, struct zf_err *err)
{
    struct grid_rows rows;
    struct grid *g = grid_tree_grid(m, &rows, err);

    if (!g)
        return false;
    for (uint32_t i = 0; i < g->n; i++) {
        if (grid_neighbour(g, i) != i) {
            rows.src[i] = m->mend.several;
            rows.off[i] = 0;
            if (rows.strided)
                rows.strided[i] = false;
        }
    }
    *map_out = &g->map;
    return true;
}

bool grid_mend(const struct grid_make *m, struct zf_map **map_out, struct zf_err *err)
{
    struct cells *c = zf_arena_get(m->scratch, 1, sizeof *c, err);
    bool fits = false;
    uint64_t work = 0;

    if (!c || !grid_make_cells(m, c, &fits, err))
        return false;
    if (!fits)
        return grid_mend_tree(m, map_out, err);
    for (uint32_t i = 0; i < m->box->n; i++) {
        (void)grid_fill_box(m->box, c, i, true, &work);
        if (work > 16 * ((uint64_t)c->total + m->box->n)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "too many boxes of a tensor lie on top of each other");
        }
    }
    struct grid_rows rows;
    struct grid *g = grid_new_grid(m, c->total, true, &rows, err);
    if (!g || !grid_keep_cuts(m, c, g, err))
        return false;
    for (uint32_t i = 0; i < c->total; i++)
        grid_mend_cell(m, c, &rows, i);
    *map_out = &g->map;
    return true;
}
