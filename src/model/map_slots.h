/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor cut into equal slots, one in each of many sources, all at the same place of theirs: what a
 * thousand ranks hold of a parameter costs no memory a piece. */
#ifndef MODEL_MAP_SLOTS_H
#define MODEL_MAP_SLOTS_H

#include <zf/model/build.h>

#include "map_flat.h"

/* One for all tensors that are cut over the same vectors. */
struct zf_stretches {
    uint64_t bytes; /* of each */
    uint32_t n;
    const uint32_t *src; /* [n] numbers in sources */
    const uint64_t *off; /* [n] bytes of the source */
};

/* Bytes [k * slot, (k + 1) * slot) of the tensor, as far as it has them, are those from `at` on of
 * stretch k. */
struct slots {
    const struct zf_stretches *of;
    uint64_t at, slot;
};

/* How many slots hold something of a tensor of that size. */
static inline uint64_t slots_used(const struct slots *s, uint64_t size)
{
    return s->slot == 0 ? 0 : size / s->slot + (size % s->slot != 0);
}

/* Slots follow each other, so nothing is covered twice; that there are enough, and that each lies in its
 * stretch, is to be proved.  A slot beyond its stretch is a hole. */
struct fault slots_prove(const struct slots *s, uint64_t size);

/* The map of slots that were proved.  Borrows t and s->of, which must live as long as the map. */
struct zf_map *slots_map(struct zf_arena *a, const struct sources *t, const struct slots *s,
                         uint64_t size, struct zf_err *err) ZF_CHECKED;

#endif
