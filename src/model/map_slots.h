/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor cut into equal slots, one in each of many sources at the same offset: the shards of a
 * parameter on a thousand ranks (ZeRO stage 3) cost no memory per piece. */
#ifndef MODEL_MAP_SLOTS_H
#define MODEL_MAP_SLOTS_H

#include <zf/model/build.h>

#include "map_flat.h"

/* The flat buffers of all ranks, shared by all tensors that are cut over them. */
struct zf_stretches {
    uint64_t bytes; /* size of each buffer */
    uint32_t n;
    const uint32_t *src; /* [n] indices in sources */
    const uint64_t *off; /* [n] bytes of the source */
};

/* Bytes [k * slot, (k + 1) * slot) of the tensor, up to its size, are at byte `at` of buffer k. */
struct slots {
    const struct zf_stretches *of;
    uint64_t at, slot;
};

/* The number of slots that a tensor of that size uses. */
static inline uint64_t slots_used(const struct slots *s, uint64_t size)
{
    return s->slot == 0 ? 0 : size / s->slot + (size % s->slot != 0);
}

/* Proves that there are enough slots, and that each lies in its buffer; a slot beyond it is a hole.
 * Slots are consecutive, so they cannot overlap. */
struct fault slots_prove(const struct slots *s, uint64_t size);

/* The map of proved slots.  Borrows t and s->of, which must live as long as the map. */
struct zf_map *slots_map(struct zf_arena *a, const struct sources *t, const struct slots *s,
                         uint64_t size, struct zf_err *err) ZF_CHECKED;

#endif
