/* SPDX-License-Identifier: Apache-2.0 */
/* Contiguous pieces, in bytes of the tensor: the proof that they cover it, and their map. */
#ifndef MODEL_MAP_FLAT_H
#define MODEL_MAP_FLAT_H

#include <zf/model/map.h>

#include "sources.h"

struct flat_piece {
    uint64_t first, len; /* bytes of the tensor; len > 0 */
    uint64_t off;        /* bytes of the source */
    uint32_t src;        /* index in sources */
};

/* The first hole or overlap of a tensor's pieces. */
enum fault_kind { ZF_FAULT_NONE, ZF_FAULT_HOLE, ZF_FAULT_TWICE };
struct fault {
    enum fault_kind kind;
    uint64_t first, last; /* bytes of the tensor, both inclusive */
};

/* Sorts the pieces and looks for the first hole or overlap in [0, size). */
struct fault flat_prove(struct flat_piece *p, uint64_t n, uint64_t size);

/* Sources of the bytes that no piece covers, and of those that several cover. */
struct mend {
    uint32_t none, several;
};
/* For sorted pieces with faults: pieces (in a) that cover [0, size) exactly once, with those of `with` at the faults. */
struct flat_piece *flat_mend(const struct flat_piece *p, uint64_t n, uint64_t size,
                             struct mend with, struct zf_arena *a, uint64_t *n_out,
                             struct zf_err *err) ZF_CHECKED;

/* The map of proved pieces; neighbours that are contiguous in their source, too, are joined (in
 * place).  Borrows t, which must live as long as the map. */
struct zf_map *flat_map(struct zf_arena *a, const struct sources *t, struct flat_piece *p,
                        uint64_t n, uint64_t size, struct zf_err *err) ZF_CHECKED;

#endif
