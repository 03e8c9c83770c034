/* SPDX-License-Identifier: Apache-2.0 */
#include "map_slots.h"

#include <zf/base/num.h>

#include "map_kind.h"

struct slots_map {
    struct zf_map map;
    const struct sources *sources;
    struct slots s;
};

/* The rest of the slot that contains byte `off` of the tensor. */
static struct zf_run slots_at(const struct zf_map *m, uint64_t off)
{
    const struct slots_map *sm = (const struct slots_map *)m;
    const struct zf_stretches *of = sm->s.of;
    uint64_t k = off / sm->s.slot, in = off % sm->s.slot, left = m->size - off;

    return (struct zf_run){.kind = ZF_RUN_SRC,
                           .len = left < sm->s.slot - in ? left : sm->s.slot - in,
                           .src = sm->sources->at[of->src[k]],
                           .off = of->off[k] + sm->s.at + in};
}

static const struct map_ops slots_ops = {.at = slots_at};

struct fault slots_prove(const struct slots *s, uint64_t size)
{
    uint64_t all;

    if (size > 0 && !zf_within(s->at, s->slot < size ? s->slot : size, s->of->bytes))
        return (struct fault){ZF_FAULT_HOLE, 0, size - 1};
    if (zf_mul(s->slot, s->of->n, &all) && all < size)
        return (struct fault){ZF_FAULT_HOLE, all, size - 1};
    return (struct fault){ZF_FAULT_NONE, 0, 0};
}

struct zf_map *slots_map(struct zf_arena *a, const struct sources *t, const struct slots *s,
                         uint64_t size, struct zf_err *err)
{
    struct slots_map *m = zf_arena_get(a, 1, sizeof *m, err);

    if (!m)
        return NULL;
    *m = (struct slots_map){.map = {.ops = &slots_ops, .size = size}, .sources = t, .s = *s};
    return &m->map;
}
