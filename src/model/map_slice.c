/* SPDX-License-Identifier: Apache-2.0 */
/* A stretch of another map: a layer of a stacked tensor.  It asks that map for everything; what is
 * special is only that the pieces of the other map may reach beyond the stretch, and that a box of
 * it need not be a box of the stretch.  So sources and extents are reported run by run. */
#include "map_kind.h"

struct slice_map {
    struct zf_map map;
    const struct zf_map *in;
    uint64_t off; /* of the first byte in `in` */
};

static struct zf_run slice_at(const struct zf_map *m, uint64_t off)
{
    const struct slice_map *s = (const struct slice_map *)m;
    struct zf_run run = zf_map_at(s->in, s->off + off);

    run.len = run.len < m->size - off ? run.len : m->size - off;
    return run;
}

static bool slice_read(const struct zf_map *m, void *buf, size_t n, uint64_t off,
                       struct zf_err *err)
{
    const struct slice_map *s = (const struct slice_map *)m;

    return zf_map_read(s->in, buf, n, s->off + off, err);
}

static bool slice_ranges(const struct zf_map *m, uint64_t off, uint64_t n, map_each_fn *fn,
                         void *ctx)
{
    const struct slice_map *s = (const struct slice_map *)m;

    return map_ranges(s->in, s->off + off, n, fn, ctx);
}

static const struct map_ops slice_ops = {
    .at = slice_at, .read = slice_read, .ranges = slice_ranges};

struct zf_map *zf_map_slice(struct zf_arena *a, const struct zf_map *m, uint64_t off, uint64_t n,
                            struct zf_err *err)
{
    struct zf_run run = n > 0 ? zf_map_at(m, off) : (struct zf_run){.kind = ZF_RUN_ZERO};

    /* One run of it needs nothing of the other map. */
    if (run.len >= n && run.kind == ZF_RUN_SRC)
        return zf_map_of_source(a, run.src, run.off, n, err);
    if (run.len >= n && run.kind == ZF_RUN_ZERO)
        return map_of_zeros(a, n, err);
    struct slice_map *s = zf_arena_get(a, 1, sizeof *s, err);
    if (!s)
        return NULL;
    *s = (struct slice_map){.map = {.ops = &slice_ops, .size = n}, .in = m, .off = off};
    if (m->ops == &slice_ops) {
        s->in = ((const struct slice_map *)m)->in;
        s->off += ((const struct slice_map *)m)->off;
    }
    return &s->map;
}
