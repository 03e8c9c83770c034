/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of bounding boxes, to find the boxes that touch a given box. */
#include "grid_kind.h"

#include <stdlib.h>

#define LEAF 8

/* A node of the tree covers positions [first, end) of the order.  Its children are at `child` and
 * `child + 1`; child 0 = leaf. */
struct box_tree_node {
    uint32_t first, end, child;
};

struct boxtree {
    uint32_t nd;
    const struct box_tree_node *node;
    const uint64_t *bound; /* [n_nodes][2][nd]: lowest and highest coordinate, both inclusive */
};

struct by {
    const uint64_t *start;
    uint32_t nd, dim;
};

static int box_tree_by_start(const void *a, const void *b, void *ctx)
{
    const struct by *by = ctx;
    uint64_t x = by->start[(uint64_t) * (const uint32_t *)a * by->nd + by->dim];
    uint64_t y = by->start[(uint64_t) * (const uint32_t *)b * by->nd + by->dim];

    return (x > y) - (x < y);
}

struct making {
    uint32_t nd;
    const uint64_t *start, *size;
    uint32_t *order;
    struct box_tree_node *node;
    uint64_t *bound;
};

/* Computes the bounds of a node; returns the dimension in which its boxes start farthest apart. */
static uint32_t box_tree_measure(const struct making *m, uint32_t i)
{
    const struct box_tree_node *node = &m->node[i];
    uint64_t *lo = m->bound + (uint64_t)i * 2 * m->nd, *hi = lo + m->nd, widest = 0;
    uint32_t best = 0;

    for (uint32_t d = 0; d < m->nd; d++) {
        uint64_t last_start = 0;

        lo[d] = UINT64_MAX;
        hi[d] = 0;
        for (uint32_t k = node->first; k < node->end; k++) {
            uint64_t s = m->start[(uint64_t)m->order[k] * m->nd + d];
            uint64_t e = s + m->size[(uint64_t)m->order[k] * m->nd + d] - 1;

            lo[d] = s < lo[d] ? s : lo[d];
            hi[d] = e > hi[d] ? e : hi[d];
            last_start = s > last_start ? s : last_start;
        }
        /* Relative to the extent: a short dimension with many cuts is as good as a long one. */
        uint64_t extent = hi[d] - lo[d] + 1;
        uint64_t spread =
            (uint64_t)((long double)(last_start - lo[d]) / (long double)extent * 1e9L);
        if (spread > widest) {
            widest = spread;
            best = d;
        }
    }
    return best;
}

struct boxtree *boxtree_new(struct zf_arena *keep, uint32_t nd, const uint64_t *start,
                            const uint64_t *size, uint32_t *order, uint32_t n, struct zf_err *err)
{
    /* Halving stops at LEAF or fewer, so every leaf but the root has at least LEAF / 2 boxes. */
    uint64_t max_nodes = (uint64_t)n / (LEAF / 2) * 2 + 1;
    struct boxtree *t = zf_arena_get(keep, 1, sizeof *t, err);
    struct making m = {.nd = nd, .start = start, .size = size, .order = order};

    if (!t || !(m.node = zf_arena_get(keep, max_nodes, sizeof *m.node, err)) ||
        !(m.bound = zf_arena_get(keep, max_nodes, 2 * (uint64_t)nd * sizeof *m.bound, err)))
        return NULL;
    uint32_t n_nodes = 1;
    m.node[0] = (struct box_tree_node){0, n, 0};
    /* Children are appended, so walking the array visits every node once. */
    for (uint32_t i = 0; i < n_nodes; i++) {
        struct by by = {start, nd, box_tree_measure(&m, i)};
        uint32_t first = m.node[i].first, end = m.node[i].end, mid = first + (end - first) / 2;

        if (end - first <= LEAF)
            continue;
        qsort_r(order + first, end - first, sizeof *order, box_tree_by_start, &by);
        m.node[i].child = n_nodes;
        m.node[n_nodes++] = (struct box_tree_node){first, mid, 0};
        m.node[n_nodes++] = (struct box_tree_node){mid, end, 0};
    }
    *t = (struct boxtree){.nd = nd, .node = m.node, .bound = m.bound};
    return t;
}

bool boxtree_touches(uint32_t nd, const uint64_t *start, const uint64_t *size, const uint64_t *lo,
                     const uint64_t *hi)
{
    for (uint32_t d = 0; d < nd; d++)
        if (start[d] > hi[d] || start[d] + size[d] <= lo[d])
            return false;
    return true;
}

void boxtree_walk_init(struct boxtree_walk *w, const struct boxtree *t, const uint64_t *lo,
                       const uint64_t *hi)
{
    w->t = t;
    w->lo = lo;
    w->hi = hi;
    w->depth = 1;
    w->stack[0] = 0;
}

static bool box_tree_node_touches(const struct boxtree_walk *w, uint32_t i)
{
    const uint64_t *lo = w->t->bound + (uint64_t)i * 2 * w->t->nd, *hi = lo + w->t->nd;

    for (uint32_t d = 0; d < w->t->nd; d++)
        if (lo[d] > w->hi[d] || hi[d] < w->lo[d])
            return false;
    return true;
}

/* Halving keeps the tree at 32 levels at most, and a level leaves one node on the stack. */
bool boxtree_walk_next(struct boxtree_walk *w, uint32_t *first_out, uint32_t *end_out)
{
    while (w->depth > 0) {
        uint32_t i = w->stack[--w->depth];
        const struct box_tree_node *node = &w->t->node[i];

        if (!box_tree_node_touches(w, i))
            continue;
        if (node->child == 0) {
            *first_out = node->first;
            *end_out = node->end;
            return true;
        }
        w->stack[w->depth++] = node->child + 1;
        w->stack[w->depth++] = node->child;
    }
    return false;
}
