/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a tensor that is not sealed yet, through a map of the pieces it has so far. */
#include <stdio.h>

#include <zf/base/num.h>

#include "draft.h"

struct read_runs {
    zf_draft_run_fn *fn;
    void *ctx;
};

static bool read_refuse(const struct zf_draft *d, uint64_t byte, const char *by, struct zf_err *err)
{
    const uint64_t elem = byte / zf_dtype_info(d->dtype)->bytes;
    char text[120];

    (void)snprintf(text, sizeof text, "is read at element %llu, which is covered by %s",
                   (unsigned long long)elem, by);
    return draft_refuse(d, err, text);
}

/* Fails if any of the n bytes of the run at `byte` of d is lost: filled bytes would read as if they existed. */
static bool read_check_run(const struct zf_draft *d, uint64_t byte, const struct zf_run *run,
                           uint64_t n, struct zf_err *err)
{
    struct zf_source *const *known = d->b->sources->at;
    struct zf_lost how;
    uint64_t until;

    if (run->kind == ZF_RUN_MADE || (run->kind == ZF_RUN_SRC && run->src == known[SOURCES_NONE]))
        return read_refuse(d, byte, "nothing so far", err);
    if (run->kind != ZF_RUN_SRC)
        return true;
    if (run->src == known[SOURCES_SEVERAL])
        return read_refuse(d, byte, "more than one piece", err);
    if (!zf_source_lost(run->src, run->off, &until, &how) &&
        (until >= run->off + n || !zf_source_lost(run->src, until, &until, &how)))
        return true;
    (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "%s", how.why);
    return how.file[0] ? zf_err_in(err, "%s", how.file) : false;
}

/* Calls to->fn (unless to is NULL) for the runs of elements [first, first + n), and reads them into buf, unless that is
 * NULL. */
static bool read_elements(struct zf_draft *d, uint64_t first, uint64_t n, void *buf,
                          const struct read_runs *to, struct zf_err *err)
{
    if (!zf_within(first, n, d->elems))
        return draft_refuse(d, err, "is read beyond its end");
    d = draft_data(d);
    const uint64_t elem = zf_dtype_info(d->dtype)->bytes, end = (first + n) * elem;
    zf_auto(arena) struct zf_arena *scratch =
        d->parts ? zf_arena_new(d->b->lim.model_memory, err) : NULL;
    const struct zf_map *m = d->parts && !scratch ? NULL : draft_map_so_far(d, scratch, err);
    struct zf_run run;

    for (uint64_t at = first * elem; m && at < end; at += run.len) {
        run = zf_map_at(m, at);
        run.len = run.len < end - at ? run.len : end - at;
        if (!read_check_run(d, at, &run, run.len, err))
            return false;
        if (to && !to->fn(to->ctx, run.kind == ZF_RUN_SRC ? run.src : NULL, run.off, run.len))
            return true;
    }
    return m && (!buf || zf_map_read(m, buf, (size_t)(n * elem), first * elem, err));
}

bool zf_draft_read(struct zf_draft *d, uint64_t first, uint64_t n, void *buf, struct zf_err *err)
{
    return read_elements(d, first, n, buf, NULL, err);
}

bool zf_draft_runs(struct zf_draft *d, uint64_t first, uint64_t n, zf_draft_run_fn *fn, void *ctx,
                   struct zf_err *err)
{
    return read_elements(d, first, n, NULL, &(struct read_runs){fn, ctx}, err);
}
