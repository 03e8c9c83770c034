/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of a tensor in several dimensions: proof of coverage, and the map of them. */
#ifndef MODEL_MAP_GRID_H
#define MODEL_MAP_GRID_H

#include "boxes.h"

struct grid_make {
    struct zf_arena *keep, *scratch; /* what stays; what goes when the tensor is done */
    const struct sources *sources;
    const struct boxes *box;
    uint64_t max_cells;
    struct mend mend; /* grid_mend */
};

/* Proves that the boxes tile the tensor: *fault_out says what is wrong with them, or *map_out is
 * the map.  Errors: ZF_E_LIMIT, ZF_E_NOMEM. */
bool grid_make(const struct grid_make *m, struct fault *fault_out, struct zf_map **map_out,
               struct zf_err *err) ZF_CHECKED;
/* The same for boxes with faults, with m->mend.  Where there are too many cells, boxes that touch others are
 * lost whole, and what no box covers is MADE. */
bool grid_mend(const struct grid_make *m, struct zf_map **map_out, struct zf_err *err) ZF_CHECKED;

/* Gives boxes whose order in their file is another one sources that read and keep large blocks
 * of them; adds those to t, which is what the map was made with. */
bool grid_keep(struct zf_map *map, struct sources *t, struct zf_arena *keep,
               const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif
