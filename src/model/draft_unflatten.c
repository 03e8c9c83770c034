/* SPDX-License-Identifier: Apache-2.0 */
/* A stretch of one tensor as a box of another: the pieces that the stretch is made of, each a run of the
 * box. */
#include <zf/base/num.h>

#include "draft.h"

/* Puts a run of the map of `of` as r, a run of a box of d. */
static bool unflatten_run(struct zf_draft *d, struct run *r, const struct zf_draft *of,
                          const struct zf_run *from, struct zf_err *err)
{
    struct zf_source *src = from->kind == ZF_RUN_SRC ? from->src : NULL;
    struct sources *known = d->b->sources;
    struct zf_lost how;
    uint64_t until;
    uint32_t number;

    if (from->kind == ZF_RUN_MADE || (src && src == known->at[SOURCES_NONE])) {
        return true; /* d has nothing there either */
    }
    if (src && src == known->at[SOURCES_SEVERAL]) {
        /* Twice as well. */
        r->src = SOURCES_ZEROS;
        return draft_run_add(d, r, err) && draft_run_add(d, r, err);
    }
    if (src && (zf_source_lost(src, from->off, &until, &how) || until < from->off + from->len)) {
        d->lost = true;
        d->unshaped = d->unshaped || of->unshaped;
    }
    if (!sources_add(known, src, &number, err)) {
        return false;
    }
    r->src = number;
    r->off = from->off;
    return draft_run_add(d, r, err);
}

bool zf_draft_unflatten(struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                        struct zf_draft *of, uint64_t of_first, struct zf_err *err)
{
    struct run r = {.start = start, .size = size};
    uint64_t n;

    d = draft_data(d);
    of = draft_data(of);
    if (!draft_takes_pieces(d, err) || !draft_box_inside(d, start, size, &n, err)) {
        return false;
    }
    if (d == of || of->dtype != d->dtype || of->kind == ZF_DRAFT_MEM || of->parts ||
        (of->kind == ZF_DRAFT_BOX && of->ndim > 1) || !zf_within(of_first, n, of->elems)) {
        return draft_refuse(d, err, "has a stretch that is not inside a flat tensor of its type");
    }
    if (n == 0) {
        return true;
    }
    const struct zf_map *m = draft_change(d, err) ? draft_map_so_far(of, NULL, err) : NULL;
    const uint64_t elem = zf_dtype_info(d->dtype)->bytes;
    d->noted = d->noted || of->noted;
    for (; m && r.first < n; r.first += r.n) {
        struct zf_run run = zf_map_at(m, (of_first + r.first) * elem);
        const uint64_t left = (n - r.first) * elem;

        run.len = run.len < left ? run.len : left;
        r.n = run.len / elem;
        if (!unflatten_run(d, &r, of, &run, err)) {
            return false;
        }
    }
    return m != NULL;
}
