/* SPDX-License-Identifier: Apache-2.0 */
#include "draft_index.h"

#include <string.h>

#include "draft.h"

/* So few pieces are looked at one by one. */
#define FEW 16

struct draft_index {
    /* Of the pieces that it is an index of: a draft that has others since has another first block, or
     * another number of them. */
    const struct piece_block *first;
    uint64_t n_pieces;
    uint32_t *order;            /* [n_pieces] numbers of pieces, in the tree's order */
    const struct piece **piece; /* [n_pieces] by number */
    const struct boxtree *tree;
};

struct draft_axes draft_axes(const struct zf_draft *d)
{
    if (d->kind == ZF_DRAFT_BOX && d->ndim > 0) {
        return (struct draft_axes){d->ndim, d->shape};
    }
    return (struct draft_axes){1, &d->elems};
}

void draft_extent(const struct zf_draft *d, const struct piece *p, const uint64_t **start_out,
                  const uint64_t **size_out)
{
    static const uint64_t zero = 0, one = 1;

    *start_out = p->box;
    *size_out = p->box + draft_axes(d).nd;
    if (d->kind == ZF_DRAFT_BOX && d->ndim == 0) {
        *start_out = &zero;
        *size_out = &one;
    }
}

/* Its tree needs all corners in a row, but only while it is made. */
static const struct boxtree *draft_index_tree(const struct zf_draft *d,
                                              const struct draft_index *index, struct zf_err *err)
{
    struct zf_build *b = d->b;
    uint32_t nd = draft_axes(d).nd;
    zf_auto(arena) struct zf_arena *scratch = zf_arena_new(b->lim.model_memory, err);
    uint64_t *start =
        scratch ? zf_arena_get(scratch, index->n_pieces, 2 * nd * sizeof *start, err) : NULL;
    uint64_t *size = start ? start + index->n_pieces * nd : NULL;

    for (uint64_t i = 0; size && i < index->n_pieces; i++) {
        const uint64_t *from, *extent;

        draft_extent(d, index->piece[i], &from, &extent);
        memcpy(start + i * nd, from, nd * sizeof *from);
        memcpy(size + i * nd, extent, nd * sizeof *extent);
        index->order[i] = (uint32_t)i;
    }
    return size
               ? boxtree_new(b->temp, nd, start, size, index->order, (uint32_t)index->n_pieces, err)
               : NULL;
}

static const struct draft_index *draft_index_new(const struct zf_draft *d, struct zf_err *err)
{
    struct zf_arena *temp = d->b->temp;
    struct draft_index *index = zf_arena_get(temp, 1, sizeof *index, err);
    struct piece_walk walk = piece_walk(d);

    if (!index) {
        return NULL;
    }
    index->first = draft_blocks(d);
    index->n_pieces = d->n_pieces;
    index->order = zf_arena_get(temp, d->n_pieces, sizeof *index->order, err);
    index->piece = index->order ? zf_arena_get(temp, d->n_pieces, sizeof(void *), err) : NULL;
    if (!index->piece) {
        return NULL;
    }
    for (uint64_t i = 0; i < d->n_pieces; i++) {
        index->piece[i] = piece_next(&walk);
    }
    index->tree = draft_index_tree(d, index, err);
    return index->tree ? index : NULL;
}

bool draft_index_make(struct zf_draft *d, struct zf_err *err)
{
    if (!draft_expand(d, err)) {
        return false;
    }
    if (d->n_pieces > FEW &&
        (!d->found || d->found->first != draft_blocks(d) || d->found->n_pieces != d->n_pieces)) {
        d->found = draft_index_new(d, err);
        return d->found != NULL;
    }
    return true;
}

bool draft_walk_init(struct draft_walk *w, struct zf_draft *d, const uint64_t *lo,
                     const uint64_t *hi, struct zf_err *err)
{
    if (!draft_index_make(d, err)) {
        return false;
    }
    *w = (struct draft_walk){.d = d, .lo = lo, .hi = hi, .all = piece_walk(d)};
    if (d->n_pieces > FEW) {
        w->index = d->found;
        boxtree_walk_init(&w->tree, w->index->tree, lo, hi);
    }
    return true;
}

static bool draft_walk_touches(const struct draft_walk *w, const struct piece *p)
{
    const uint64_t *start, *size;

    draft_extent(w->d, p, &start, &size);
    return boxtree_touches(draft_axes(w->d).nd, start, size, w->lo, w->hi);
}

const struct piece *draft_walk_next(struct draft_walk *w)
{
    const struct piece *p;

    if (!w->index) {
        while ((p = piece_next(&w->all)) && !draft_walk_touches(w, p)) {
        }
        return p;
    }
    for (;;) {
        while (w->pos < w->end) {
            p = w->index->piece[w->index->order[w->pos++]];
            if (draft_walk_touches(w, p)) {
                return p;
            }
        }
        if (!boxtree_walk_next(&w->tree, &w->pos, &w->end)) {
            return NULL;
        }
    }
}
