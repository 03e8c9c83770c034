/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors joined along another dimension than the first: every row of the map has a row of each part, one after the
 * other. */
#include <zf/base/num.h>

#include "map_kind.h"

struct columns_map {
    struct zf_map map;
    uint64_t n, row;
    const uint64_t *first;           /* [n] byte of the row where each part begins */
    const struct zf_map *const *sub; /* [n] */
};

/* The bytes from `off` to the end of its part of a row, at most n: *part, from byte *at of it. */
static uint64_t columns_find(const struct columns_map *c, uint64_t off, uint64_t n, uint64_t *part,
                             uint64_t *at)
{
    const uint64_t row = off / c->row, in = off % c->row, i = map_search(c->first, c->n, in);
    const uint64_t end = i + 1 < c->n ? c->first[i + 1] : c->row, len = end - c->first[i];

    *part = i;
    *at = row * len + (in - c->first[i]);
    return n < end - in ? n : end - in;
}

static struct zf_run columns_at(const struct zf_map *m, uint64_t off)
{
    const struct columns_map *c = (const struct columns_map *)m;
    uint64_t part, at;
    const uint64_t k = columns_find(c, off, m->size - off, &part, &at);
    struct zf_run run = zf_map_at(c->sub[part], at);

    run.len = run.len < k ? run.len : k;
    return run;
}

static bool columns_read(const struct zf_map *m, void *buf, size_t n, uint64_t off,
                         struct zf_err *err)
{
    const struct columns_map *c = (const struct columns_map *)m;
    unsigned char *out = buf;
    uint64_t part, at;

    while (n > 0) {
        const size_t k = (size_t)columns_find(c, off, n, &part, &at);

        if (!zf_map_read(c->sub[part], out, k, at, err))
            return false;
        out += k;
        off += k;
        n -= k;
    }
    return true;
}

static bool columns_each(const struct zf_map *m, map_each_fn *fn, void *ctx)
{
    const struct columns_map *c = (const struct columns_map *)m;

    for (uint64_t i = 0; i < c->n; i++)
        if (!zf_map_each_source(c->sub[i], fn, ctx))
            return false;
    return true;
}

static bool columns_ranges(const struct zf_map *m, uint64_t off, uint64_t n, map_each_fn *fn,
                           void *ctx)
{
    const struct columns_map *c = (const struct columns_map *)m;
    uint64_t part, at;

    while (n > 0) {
        const uint64_t k = columns_find(c, off, n, &part, &at);

        if (!map_ranges(c->sub[part], at, k, fn, ctx))
            return false;
        off += k;
        n -= k;
    }
    return true;
}

static const struct map_ops columns_ops = {
    .at = columns_at,
    .read = columns_read,
    .each = columns_each,
    .extents = map_run_extents,
    .ranges = columns_ranges,
};

struct zf_map *zf_map_columns(struct zf_arena *a, uint64_t rows, const struct zf_map *const *part,
                              uint64_t n_parts, struct zf_err *err)
{
    struct columns_map *c = zf_arena_get(a, 1, sizeof *c, err);
    uint64_t *first = c ? zf_arena_get(a, n_parts, sizeof *first, err) : NULL;
    const struct zf_map **sub = first ? zf_arena_get(a, n_parts, sizeof(*sub), err) : NULL;
    uint64_t row = 0, n = 0, size;

    if (!sub)
        return NULL;
    for (uint64_t i = 0; i < n_parts; i++) {
        if (part[i]->size == 0)
            continue;
        first[n] = row;
        sub[n++] = part[i];
        if (part[i]->size % rows != 0 || !zf_add(row, part[i]->size / rows, &row)) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a part has no whole rows");
            return NULL;
        }
    }
    if (n == 0)
        return map_of_zeros(a, 0, err);
    if (!zf_mul(row, rows, &size)) {
        (void)zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the parts of a tensor exceed 2^64 bytes");
        return NULL;
    }
    *c = (struct columns_map){
        .map = {.ops = &columns_ops, .size = size}, .n = n, .row = row, .first = first, .sub = sub};
    return &c->map;
}
