/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that follow a rule instead of a list of pieces. */
#include <zf/base/num.h>

#include "draft.h"
#include "map_slots.h"

struct zf_stretches *zf_build_stretches(struct zf_build *b, const struct zf_from *from, uint32_t n,
                                        uint64_t bytes, struct zf_err *err)
{
    struct zf_stretches *s = zf_arena_get(b->keep, 1, sizeof *s, err);
    uint32_t *src = s ? zf_arena_get(b->keep, n, sizeof *src, err) : NULL;
    uint64_t *off = src ? zf_arena_get(b->keep, n, sizeof *off, err) : NULL;

    for (uint32_t k = 0; off && k < n; k++) {
        if (!from[k].src || !zf_within(from[k].off, bytes, from[k].src->size)) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "%llu bytes at byte %llu reach beyond the end of its data",
                          (unsigned long long)bytes, (unsigned long long)from[k].off);
            return from[k].src ? zf_null(zf_err_in(err, "%s", from[k].src->name)) : NULL;
        }
        off[k] = from[k].off;
        if (!sources_add(b->sources, zf_window_of(from[k].src, &off[k]), &src[k], err))
            return NULL;
    }
    if (!off)
        return NULL;
    *s = (struct zf_stretches){.bytes = bytes, .n = n, .src = src, .off = off};
    return s;
}

bool zf_draft_slots(struct zf_draft *d, const struct zf_stretches *of, uint64_t at, uint64_t slot,
                    struct zf_err *err)
{
    uint64_t elem, n;

    d = draft_data(d);
    elem = zf_dtype_info(d->dtype)->bytes;
    if (d->kind != ZF_DRAFT_EMPTY)
        return draft_refuse(d, err, "is cut into slots, but also has pieces");
    if (d->elems == 0)
        return true;
    struct slots *s = zf_arena_get(d->b->temp, 1, sizeof *s, err);
    if (!s || !draft_change(d, err))
        return false;
    s->of = of;
    /* Bounded by the tensor, so that a slot's size in bytes cannot overflow. */
    slot = slot < d->elems ? slot : d->elems;
    s->slot = slot * elem;
    if (slot == 0 || !zf_mul(at, elem, &s->at) || !zf_add(s->at, s->slot, &n) || n > of->bytes)
        return draft_refuse(d, err, "has a slot that reaches beyond the end of its ranks' vectors");
    d->kind = ZF_DRAFT_SLOTS;
    d->slots = s;
    d->b->rest.n_ruled += draft_slots_ruled(d);
    return true;
}

uint64_t draft_slots_ruled(const struct zf_draft *d)
{
    return d->kind == ZF_DRAFT_SLOTS ? slots_used(d->slots, draft_bytes(d)) : 0;
}
