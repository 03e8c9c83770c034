/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of a draft by where they are in the tensor, before the seal has proved anything: what a
 * stretch of it is made of so far.  Stretches and boxes are one thing here: a tensor of stretches
 * has one dimension. */
#ifndef MODEL_DRAFT_INDEX_H
#define MODEL_DRAFT_INDEX_H

#include "box_tree.h"
#include "build_kind.h"

/* The dimensions in which the pieces of d are boxes. */
struct draft_axes {
    uint32_t nd;
    const uint64_t *shape; /* [nd] */
};
struct draft_axes draft_axes(const struct zf_draft *d);
/* The box of a piece of d, in these dimensions: start [nd] and size [nd]. */
void draft_extent(const struct zf_draft *d, const struct piece *p, const uint64_t **start_out,
                  const uint64_t **size_out);

/* Makes what a walk over d needs, unless it is there and still right. */
bool draft_index_make(struct zf_draft *d, struct zf_err *err) ZF_CHECKED;
/* A walk over the pieces that touch a box of the tensor, corner to corner (inclusive); each comes once.
 * lo and hi are borrowed.  A draft of many pieces is indexed at its first walk, and again only when it
 * has got pieces since: put all of them first. */
struct draft_walk {
    struct zf_draft *d;
    const uint64_t *lo, *hi;
    const struct draft_index *index; /* NULL = few pieces: all are looked at */
    struct boxtree_walk tree;
    uint32_t pos, end;
    struct piece_walk all;
};
bool draft_walk_init(struct draft_walk *w, struct zf_draft *d, const uint64_t *lo,
                     const uint64_t *hi, struct zf_err *err) ZF_CHECKED;
/* The next piece, or NULL. */
const struct piece *draft_walk_next(struct draft_walk *w);

#endif
