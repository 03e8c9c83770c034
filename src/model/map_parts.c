/* SPDX-License-Identifier: Apache-2.0 */
/* Maps one after the other: a header, a tensor, padding, the next tensor. */
#include <string.h>

#include <zf/base/num.h>

#include "map_kind.h"

struct parts_map {
    struct zf_map map;
    uint64_t n;
    const uint64_t *first;           /* [n] where each part begins */
    const struct zf_map *const *sub; /* [n] NULL = zeros */
};

static uint64_t part_end(const struct parts_map *p, uint64_t i)
{
    return i + 1 < p->n ? p->first[i + 1] : p->map.size;
}

static struct zf_run parts_at(const struct zf_map *m, uint64_t off)
{
    const struct parts_map *p = (const struct parts_map *)m;
    uint64_t i = map_search(p->first, p->n, off);

    if (!p->sub[i])
        return (struct zf_run){.kind = ZF_RUN_ZERO, .len = part_end(p, i) - off};
    return zf_map_at(p->sub[i], off - p->first[i]);
}

static bool parts_read(const struct zf_map *m, void *buf, size_t n, uint64_t off,
                       struct zf_err *err)
{
    const struct parts_map *p = (const struct parts_map *)m;
    unsigned char *out = buf;

    for (uint64_t i = map_search(p->first, p->n, off); n > 0; i++) {
        uint64_t left = part_end(p, i) - off;
        size_t k = n < left ? n : (size_t)left;

        if (!p->sub[i])
            memset(out, 0, k);
        else if (!zf_map_read(p->sub[i], out, k, off - p->first[i], err))
            return false;
        out += k;
        off += k;
        n -= k;
    }
    return true;
}

static bool parts_each(const struct zf_map *m, map_each_fn *fn, void *ctx)
{
    const struct parts_map *p = (const struct parts_map *)m;

    for (uint64_t i = 0; i < p->n; i++)
        if (p->sub[i] && !zf_map_each_source(p->sub[i], fn, ctx))
            return false;
    return true;
}

static bool parts_ranges(const struct zf_map *m, uint64_t off, uint64_t n, map_each_fn *fn,
                         void *ctx)
{
    const struct parts_map *p = (const struct parts_map *)m;

    for (uint64_t i = map_search(p->first, p->n, off); n > 0; i++) {
        uint64_t left = part_end(p, i) - off, k = n < left ? n : left;

        if (p->sub[i] && !map_ranges(p->sub[i], off - p->first[i], k, fn, ctx))
            return false;
        off += k;
        n -= k;
    }
    return true;
}

static const struct map_ops parts_ops = {
    .at = parts_at,
    .read = parts_read,
    .each = parts_each,
    .extents = map_run_extents,
    .ranges = parts_ranges,
};

struct zf_map *zf_map_of_parts(struct zf_arena *a, const struct zf_part *part, uint64_t n_parts,
                               struct zf_err *err)
{
    struct parts_map *p = zf_arena_get(a, 1, sizeof *p, err);
    uint64_t *first = p ? zf_arena_get(a, n_parts, sizeof *first, err) : NULL;
    const struct zf_map **sub = first ? zf_arena_get(a, n_parts, sizeof(*sub), err) : NULL;
    uint64_t at = 0, n = 0;

    if (!sub)
        return NULL;
    /* Empty parts are left out, so that the parts' beginnings are distinct. */
    for (uint64_t i = 0; i < n_parts; i++) {
        uint64_t len = part[i].map ? part[i].map->size : part[i].n;

        if (len == 0)
            continue;
        first[n] = at;
        sub[n++] = part[i].map;
        if (!zf_add(at, len, &at)) {
            (void)zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the parts of a file exceed 2^64 bytes");
            return NULL;
        }
    }
    *p = (struct parts_map){
        .map = {.ops = &parts_ops, .size = at}, .n = n, .first = first, .sub = sub};
    return &p->map;
}
