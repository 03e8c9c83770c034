/* SPDX-License-Identifier: Apache-2.0 */
/* A stretch of one tensor as a box of another: the pieces that the stretch is made of, each a run of the
 * box. */
#include <zf/base/num.h>

#include "draft.h"
#include "draft_index.h"

/* Puts the part of the stretch [at, at + r->n) of `of` that piece p covers, as a run of r's box. */
static bool unflatten_piece(struct zf_draft *d, const struct run *r, const struct zf_draft *of,
                            uint64_t at, const struct piece *p, struct zf_err *err)
{
    const uint64_t *start, *size;
    uint64_t elem = zf_dtype_info(of->dtype)->bytes;

    draft_extent(of, p, &start, &size);
    if (of->kind == ZF_DRAFT_BOX && p->stride) {
        return draft_refuse(d, err, "has a stretch of a tensor whose elements are not packed");
    }
    uint64_t lo = *start > at ? *start : at, end = *start + *size;
    end = end < at + r->n ? end : at + r->n;
    uint64_t off = p->off + (lo - *start) * elem, until;
    struct zf_source *src = of->b->sources->at[p->src];
    struct zf_lost how;
    if (src && (zf_source_lost(src, off, &until, &how) || until < off + (end - lo) * elem)) {
        d->lost = true;
        d->unshaped = d->unshaped || of->unshaped;
    }
    return draft_run_add(d,
                         &(struct run){.start = r->start,
                                       .size = r->size,
                                       .first = lo - at,
                                       .n = end - lo,
                                       .off = off,
                                       .src = p->src},
                         err);
}

bool zf_draft_unflatten(struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                        struct zf_draft *of, uint64_t of_first, struct zf_err *err)
{
    struct run r = {.start = start, .size = size};
    struct draft_walk walk;
    const struct piece *p;

    d = draft_data(d);
    of = draft_data(of);
    if (!draft_box_inside(d, start, size, &r.n, err)) {
        return false;
    }
    /* In one dimension a box is a stretch. */
    if (d == of || of->dtype != d->dtype || of->kind == ZF_DRAFT_MEM || of->parts ||
        draft_axes(of).nd != 1 || !zf_within(of_first, r.n, of->elems)) {
        return draft_refuse(d, err, "has a stretch that is not inside a flat tensor of its type");
    }
    if (r.n == 0) {
        return true;
    }
    const uint64_t last = of_first + r.n - 1;
    if (!build_save_draft(d, err) || !draft_walk_init(&walk, of, &of_first, &last, err)) {
        return false;
    }
    d->noted = d->noted || of->noted;
    while ((p = draft_walk_next(&walk))) {
        if (!unflatten_piece(d, &r, of, of_first, p, err)) {
            return false;
        }
    }
    return true;
}
