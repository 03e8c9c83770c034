/* SPDX-License-Identifier: Apache-2.0 */
/* A bounding tree over boxes: which of them touch a given box. */
#ifndef MODEL_BOX_TREE_H
#define MODEL_BOX_TREE_H

#include <zf/base/arena.h>

struct boxtree;

/* Sorts order[n] (numbers of boxes) so that neighbours are near each other, and builds the tree
 * over that order.  start, size: [..][nd], by number.  The tree lives in keep. */
struct boxtree *boxtree_new(struct zf_arena *keep, uint32_t nd, const uint64_t *start,
                            const uint64_t *size, uint32_t *order, uint32_t n,
                            struct zf_err *err) ZF_CHECKED;

/* Walks the leaves whose bounds touch [lo, hi] (both inclusive).  A leaf is a few boxes of the
 * order, which the caller tests itself. */
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

#endif
