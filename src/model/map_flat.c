/* SPDX-License-Identifier: Apache-2.0 */
#include "map_flat.h"

#include <stdlib.h>
#include <string.h>

#include "map_kind.h"

/* ---- the map: 20 bytes a piece ------------------------------------------------------------ */

struct flat_map {
    struct zf_map map;
    const struct sources *sources;
    uint64_t n;
    const uint64_t *first, *off; /* [n] */
    const uint32_t *src;         /* [n] */
};

static uint64_t map_flat_piece_end(const struct flat_map *f, uint64_t i)
{
    return i + 1 < f->n ? f->first[i + 1] : f->map.size;
}

static struct zf_run flat_at(const struct zf_map *m, uint64_t off)
{
    const struct flat_map *f = (const struct flat_map *)m;
    uint64_t i = map_search(f->first, f->n, off);
    uint64_t len = map_flat_piece_end(f, i) - off;

    if (f->src[i] == 0)
        return (struct zf_run){.kind = ZF_RUN_ZERO, .len = len};
    return (struct zf_run){.kind = ZF_RUN_SRC,
                           .len = len,
                           .src = f->sources->at[f->src[i]],
                           .off = f->off[i] + (off - f->first[i])};
}

/* Reads all pieces of the range after a single search. */
static bool flat_read(const struct zf_map *m, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    const struct flat_map *f = (const struct flat_map *)m;
    unsigned char *out = buf;
    size_t k;

    for (uint64_t i = map_search(f->first, f->n, off); n > 0; i++, out += k, off += k, n -= k) {
        const uint64_t left = map_flat_piece_end(f, i) - off;
        struct zf_source *src = f->sources->at[f->src[i]];

        k = n < left ? n : (size_t)left;
        if (!src)
            memset(out, 0, k);
        else if (!zf_source_pread(src, out, k, f->off[i] + (off - f->first[i]), err))
            return false;
    }
    return true;
}

static const struct map_ops flat_ops = {.at = flat_at, .read = flat_read};

static uint64_t map_flat_join_neighbours(struct flat_piece *p, uint64_t n)
{
    uint64_t k = 0;

    for (uint64_t i = 1; i < n; i++)
        if (p[i].src == p[k].src && (p[i].src == 0 || p[i].off == p[k].off + p[k].len))
            p[k].len += p[i].len;
        else
            p[++k] = p[i];
    return n ? k + 1 : 0;
}

struct zf_map *flat_map(struct zf_arena *a, const struct sources *t, struct flat_piece *p,
                        uint64_t n, uint64_t size, struct zf_err *err)
{
    n = map_flat_join_neighbours(p, n);
    if (n == 0 || (n == 1 && p->src == 0))
        return map_of_zeros(a, size, err);
    if (n == 1)
        return zf_map_of_source(a, t->at[p->src], p->off, size, err);
    struct flat_map *f = zf_arena_get(a, 1, sizeof *f, err);
    uint64_t *first = f ? zf_arena_get(a, n, sizeof *first, err) : NULL;
    uint64_t *off = first ? zf_arena_get(a, n, sizeof *off, err) : NULL;
    uint32_t *src = off ? zf_arena_get(a, n, sizeof *src, err) : NULL;
    if (!src)
        return NULL;
    for (uint64_t i = 0; i < n; i++) {
        first[i] = p[i].first;
        off[i] = p[i].off;
        src[i] = p[i].src;
    }
    *f = (struct flat_map){.map = {.ops = &flat_ops, .size = size},
                           .sources = t,
                           .n = n,
                           .first = first,
                           .off = off,
                           .src = src};
    return &f->map;
}

/* ---- the proof ---------------------------------------------------------------------------- */

static int map_flat_by_first(const void *a, const void *b)
{
    const struct flat_piece *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

static void map_flat_sort_pieces(struct flat_piece *p, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++) {
        if (p[i - 1].first > p[i].first) {
            qsort(p, (size_t)n, sizeof *p, map_flat_by_first);
            return;
        }
    }
}

struct fault flat_prove(struct flat_piece *p, uint64_t n, uint64_t size)
{
    uint64_t at = 0;

    map_flat_sort_pieces(p, n);
    for (uint64_t i = 0; i < n; i++) {
        if (p[i].first > at)
            return (struct fault){ZF_FAULT_HOLE, at, p[i].first - 1};
        if (p[i].first < at) {
            uint64_t end = p[i].first + p[i].len;

            return (struct fault){ZF_FAULT_TWICE, p[i].first, (end < at ? end : at) - 1};
        }
        at += p[i].len;
    }
    if (at < size)
        return (struct fault){ZF_FAULT_HOLE, at, size - 1};
    return (struct fault){ZF_FAULT_NONE, 0, 0};
}

/* ---- degraded ----------------------------------------------------------------------------- */

static int map_flat_by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

struct end {
    uint64_t at, piece;
};

/* A sweep over all starts and ends.  `live` counts the pieces over the current range and `sum` adds
 * up their indices, so that the sum of a single piece is its index. */
struct flat_piece *flat_mend(const struct flat_piece *p, uint64_t n, uint64_t size,
                             struct mend with, struct zf_arena *a, uint64_t *n_out,
                             struct zf_err *err)
{
    struct end *end = zf_arena_get(a, n, sizeof *end, err);
    struct flat_piece *out = end ? zf_arena_get(a, 2 * n + 1, sizeof *out, err) : NULL;
    uint64_t b = 0, e = 0, at = 0, live = 0, sum = 0, k = 0;

    if (!out)
        return NULL;
    for (uint64_t i = 0; i < n; i++)
        end[i] = (struct end){p[i].first + p[i].len, i};
    qsort(end, (size_t)n, sizeof *end, map_flat_by_number);
    while (at < size) {
        for (; b < n && p[b].first == at; b++) {
            live++;
            sum += b;
        }
        for (; e < n && end[e].at == at; e++) {
            live--;
            sum -= end[e].piece;
        }
        uint64_t to = size;
        to = b < n && p[b].first < to ? p[b].first : to;
        to = e < n && end[e].at < to ? end[e].at : to;
        out[k] = (struct flat_piece){
            .first = at, .len = to - at, .src = live ? with.several : with.none};
        if (live == 1) {
            out[k].src = p[sum].src;
            out[k].off = p[sum].off + (at - p[sum].first);
        }
        k++;
        at = to;
    }
    *n_out = k;
    return out;
}
