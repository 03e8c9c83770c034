/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in Fortran order, transposed ones: what is next in the tensor is far away in the file,
 * so that a read of 1 MiB is ten thousand reads of a hundred bytes each.  A block of some MiB
 * takes as many reads, of some KiB each, so blocks are read whole and kept for the reads that
 * follow. */
#include "grid_kind.h"
#include "map_grid.h"

/* Least size of one stretch of the file, and the bounds of a block, of which the
 * cache holds two at least. */
#define STRETCH (4u << 10)
#define SPAN_MIN (1u << 20)
#define SPAN_MAX (32u << 20)

/* Is some dimension nearer together in the file than the innermost is? */
static bool grid_box_turned(const struct box *b)
{
    for (uint32_t d = 0; d + 2 < b->nd; d++) {
        if (b->size[d] > 1 && b->size[b->nd - 2] > 1 && b->stride[d] < b->stride[b->nd - 2]) {
            return true;
        }
    }
    return false;
}

/* Decompressed bytes are in memory already. */
static bool grid_box_in_file(const struct box *b)
{
    struct zf_identity id;
    uint64_t at = b->off;

    return b->src && zf_source_identity(zf_source_origin(b->src, &at), &id);
}

/* Whole steps of the outermost dimension, so that blocks end where stretches do; at most `most` bytes. */
static uint64_t grid_span(const struct box *b, uint64_t most)
{
    uint64_t elem = b->size[b->nd - 1], row = b->inner[0];
    uint64_t rows = (STRETCH + elem - 1) / elem;
    uint64_t span = row > most / rows ? most : row * rows;

    span = span < SPAN_MIN ? SPAN_MIN : span;
    return row <= span ? span / row * row : span;
}

bool grid_keep(struct zf_map *map, struct sources *t, struct zf_arena *keep,
               const struct zf_limits *lim, struct zf_err *err)
{
    struct grid *g = (struct grid *)map;
    const uint64_t most = lim->cache_bytes / 2 < SPAN_MAX ? lim->cache_bytes / 2 : SPAN_MAX;
    uint32_t *kept = NULL;

    for (uint32_t i = 0; g->strided && most >= SPAN_MIN && i < g->n; i++) {
        struct box box;

        grid_box(g, i, &box);
        if (box.packed || box.nd < 3 || box.inner[0] * box.size[0] < SPAN_MIN ||
            !grid_box_turned(&box) || !grid_box_in_file(&box)) {
            continue;
        }
        kept = kept ? kept : zf_arena_get(keep, g->n, sizeof *kept, err);
        zf_auto(source) struct zf_source *whole = kept ? box_source_new(&box, err) : NULL;
        zf_auto(source) struct zf_source *s =
            whole ? zf_kept_new(whole, grid_span(&box, most), lim, err) : NULL;
        if (!s || !sources_add(t, s, &kept[i], err)) {
            return false;
        }
    }
    g->kept = kept;
    return true;
}
