/* SPDX-License-Identifier: Apache-2.0 */
/* Maps one after the other (a header, a tensor, padding, the next tensor), or tensors joined along another dimension
 * than the first: every row of the map has a row of each part.  The former are a single row. */
#include <zf/base/num.h>

#include "map_kind.h"

struct parts_map {
    struct zf_map map;
    uint64_t n, row;
    const uint64_t *first;           /* [n] byte of the row where each part begins */
    const struct zf_map *const *sub; /* [n] */
};

/* The bytes from `off` to the end of its part of a row, at most n: those of *part from its byte *at on.  Before the call
 * *part is the one that may begin there, which saves a search, or the number of parts. */
static uint64_t parts_find(const struct parts_map *p, uint64_t off, uint64_t n, uint64_t *part,
                           uint64_t *at)
{
    const uint64_t row = off / p->row, in = off % p->row;
    const bool begins = *part < p->n && p->first[*part] == in;
    const uint64_t i = begins ? *part : map_search(p->first, p->n, in);
    const uint64_t end = i + 1 < p->n ? p->first[i + 1] : p->row, len = end - p->first[i];

    *part = i;
    *at = row * len + (in - p->first[i]);
    return n < end - in ? n : end - in;
}

static struct zf_run parts_at(const struct zf_map *m, uint64_t off)
{
    const struct parts_map *p = (const struct parts_map *)m;
    uint64_t part = p->n, at;
    const uint64_t k = parts_find(p, off, m->size - off, &part, &at);
    struct zf_run run = zf_map_at(p->sub[part], at);

    run.len = run.len < k ? run.len : k;
    return run;
}

static bool parts_read(const struct zf_map *m, void *buf, size_t n, uint64_t off,
                       struct zf_err *err)
{
    const struct parts_map *p = (const struct parts_map *)m;
    unsigned char *out = buf;
    uint64_t part = p->n, at;

    for (size_t k; n > 0; out += k, off += k, n -= k, part++) {
        k = (size_t)parts_find(p, off, n, &part, &at);
        if (!zf_map_read(p->sub[part], out, k, at, err))
            return false;
    }
    return true;
}

static bool parts_each(const struct zf_map *m, map_each_fn *fn, void *ctx)
{
    const struct parts_map *p = (const struct parts_map *)m;

    for (uint64_t i = 0; i < p->n; i++)
        if (!zf_map_each_source(p->sub[i], fn, ctx))
            return false;
    return true;
}

static bool parts_ranges(const struct zf_map *m, uint64_t off, uint64_t n, map_each_fn *fn,
                         void *ctx)
{
    const struct parts_map *p = (const struct parts_map *)m;
    uint64_t part = p->n, at;

    for (uint64_t k; n > 0; off += k, n -= k, part++) {
        k = parts_find(p, off, n, &part, &at);
        if (!map_ranges(p->sub[part], at, k, fn, ctx))
            return false;
    }
    return true;
}

static const struct map_ops parts_ops = {
    .at = parts_at,
    .read = parts_read,
    .each = parts_each,
    .ranges = parts_ranges,
};

struct zf_map *zf_map_columns(struct zf_arena *a, uint64_t rows, const struct zf_map *const *part,
                              uint64_t n_parts, struct zf_err *err)
{
    struct parts_map *p = zf_arena_get(a, 1, sizeof *p, err);
    uint64_t *first = p ? zf_arena_get(a, n_parts, sizeof *first, err) : NULL;
    const struct zf_map **sub = first ? zf_arena_get(a, n_parts, sizeof(*sub), err) : NULL;
    uint64_t row = 0, n = 0, size = 0;

    if (!sub)
        return NULL;
    for (uint64_t i = 0; i < n_parts; i++) {
        if (part[i]->size == 0)
            continue;
        first[n] = row;
        sub[n++] = part[i];
        if (part[i]->size % rows != 0)
            return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a part has no whole rows"));
        if (!zf_add(row, part[i]->size / rows, &row) || !zf_mul(row, rows, &size)) {
            return zf_null(
                zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the parts exceed 2^64 bytes together"));
        }
    }
    if (n == 0)
        return map_of_zeros(a, 0, err);
    *p = (struct parts_map){
        .map = {.ops = &parts_ops, .size = size}, .n = n, .row = row, .first = first, .sub = sub};
    return &p->map;
}
