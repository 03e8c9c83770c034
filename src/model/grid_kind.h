/* SPDX-License-Identifier: Apache-2.0 */
/* The map of a tensor that is cut into boxes.  There are two ways to find a box:
 *
 * cells: the cuts of all boxes, sorted per dimension, make a grid of cells, each inside one box.
 * When every box is one cell (even sharding), boxes are stored in the order of cells and cost 12
 * bytes each; otherwise a table has the box of each cell, and each box has its corner cells.
 * tree: for layouts whose cuts would make too many cells: the boxes' own corners, and a tree of
 * bounding boxes over them. */
#ifndef MODEL_GRID_KIND_H
#define MODEL_GRID_KIND_H

#include <zf/base/arena.h>

#include "box.h"
#include "map_kind.h"

struct boxtree;

/* Sorts order[n] (indices of boxes) so that neighbours are near each other, and builds the tree
 * over that order.  start, size: [..][nd], by index.  The tree lives in keep. */
struct boxtree *boxtree_new(struct zf_arena *keep, uint32_t nd, const uint64_t *start,
                            const uint64_t *size, uint32_t *order, uint32_t n,
                            struct zf_err *err) ZF_CHECKED;

/* Walks the leaves whose bounds touch [lo, hi] (both inclusive).  A leaf is a few boxes of the
 * order, each of which the caller must test. */
struct boxtree_walk {
    const struct boxtree *t;
    const uint64_t *lo, *hi;
    uint32_t depth;
    uint32_t stack[64];
};
void boxtree_walk_init(struct boxtree_walk *w, const struct boxtree *t, const uint64_t *lo,
                       const uint64_t *hi);
/* The next leaf: positions [*first_out, *end_out) of the order; false when there is none. */
bool boxtree_walk_next(struct boxtree_walk *w, uint32_t *first_out, uint32_t *end_out);

/* Does box [start, start + size) touch [lo, hi] (inclusive)? */
bool boxtree_touches(uint32_t nd, const uint64_t *start, const uint64_t *size, const uint64_t *lo,
                     const uint64_t *hi);

struct grid {
    struct zf_map map;
    const struct sources *sources;
    uint32_t nd, n;                /* n boxes */
    const uint64_t *shape;         /* [nd] last in bytes */
    const uint64_t *tensor_stride; /* [nd] bytes */

    const uint64_t *off;    /* [n] */
    const uint32_t *src;    /* [n] */
    const uint64_t *stride; /* [n][nd] or NULL: all packed */
    const bool *strided;    /* [n] or NULL */
    /* [n] the source of a box that is better read in large blocks, or 0; NULL = none */
    const uint32_t *kept;

    const uint64_t *const *cut; /* [nd][n_cells + 1]; NULL = tree */
    const uint32_t *n_cells;    /* [nd] */
    const uint32_t *cell;       /* cell -> box; NULL = they are the same */
    const uint32_t *lo, *hi;    /* [n] first and last cell of a box; NULL like cell */

    const uint64_t *start, *size; /* [n][nd] in the tree's order */
    const struct boxtree *tree;
};

extern const struct map_ops grid_ops;

/* Unpacks box i. */
void grid_box(const struct grid *g, uint32_t i, struct box *out);

#endif
