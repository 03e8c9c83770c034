/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of a grid that are read in cached blocks (box_keep.c): transposed ones whose source is a file. */
#include "grid_kind.h"
#include "map_grid.h"

/* False for decompressed bytes, which are in memory already. */
static bool grid_box_in_file(const struct box *b)
{
    struct zf_identity id;
    uint64_t at = b->off;

    return b->src && zf_source_identity(zf_source_origin(b->src, &at), &id);
}

bool grid_keep(struct zf_map *map, struct sources *t, struct zf_arena *keep,
               const struct zf_limits *lim, struct zf_err *err)
{
    struct grid *g = (struct grid *)map;
    uint32_t *kept = NULL;

    for (uint32_t i = 0; g->strided && i < g->n; i++) {
        struct box box;

        grid_box(g, i, &box);
        if (box.packed || !box_is_kept(&box, lim) || !grid_box_in_file(&box))
            continue;
        kept = kept ? kept : zf_arena_get(keep, g->n, sizeof *kept, err);
        zf_auto(source) struct zf_source *s = kept ? box_kept_new(&box, lim, err) : NULL;
        if (!s || !sources_add(t, s, &kept[i], err))
            return false;
    }
    g->kept = kept;
    return true;
}
