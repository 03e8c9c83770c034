/* SPDX-License-Identifier: Apache-2.0 */
/* Frees values that were handed over and are no longer needed.  Each value that is not marked as
 * possibly referenced from several places (ZF_PV_MANY, constants, values that the heap shares) is
 * referenced by exactly one other value, or was on the stack, so it can be freed together with
 * that. */
#include "heap.h"

#include <stdlib.h>

/* In a word of the list of values still to visit, which is an address: the value stays. */
#define STAYS 1u

void pickle_heap_fini(struct pickle_heap *h)
{
    free(h->to_spend);
}

/* Can the heap or the pickle share this value, and so use it again? */
static bool spend_is_common(const struct zf_pv *v)
{
    switch ((enum zf_pv_kind)v->kind) {
    case ZF_PV_INT:
        return v->at[0].i >= 0 && v->at[0].i < 256;
    case ZF_PV_STR:
        return v->n <= 1;
    case ZF_PV_GLOBAL:
    case ZF_PV_PERSID:
    case ZF_PV_EXT:
        return true;
    default:
        return false;
    }
}

static bool spend_later(struct pickle_heap *h, const struct zf_pv *v, bool stays,
                        struct zf_err *err)
{
    if (!v || (v->flags & (ZF_PV_SHARED | ZF_PV_READ)) || spend_is_common(v))
        return true;
    if (h->n_to_spend == h->to_spend_cap) {
        uintptr_t *p = pickle_heap_grow(h, h->to_spend, sizeof *p, &h->to_spend_cap, err);

        if (!p)
            return false;
        h->to_spend = p;
    }
    h->to_spend[h->n_to_spend++] = (uintptr_t)v | (stays || (v->flags & ZF_PV_MANY) ? STAYS : 0);
    return true;
}

static bool spend_all_later(struct pickle_heap *h, const union pv_slot *at, uint64_t n, bool stays,
                            struct zf_err *err)
{
    for (uint64_t i = 0; i < n; i++)
        if (!spend_later(h, at[i].v, stays, err))
            return false;
    return true;
}

static struct pv_items *spend_items_of(const struct zf_pv *v)
{
    switch ((enum zf_pv_kind)v->kind) {
    case ZF_PV_LIST:
    case ZF_PV_SET:
    case ZF_PV_DICT:
        return v->at[0].items;
    case ZF_PV_CALL:
        return v->flags & ZF_PV_MORE ? v->at[1].more->items : NULL;
    default:
        return NULL;
    }
}

static bool spend_children(struct pickle_heap *h, const struct zf_pv *v, bool stays,
                           struct zf_err *err)
{
    const struct pv_items *items = spend_items_of(v);
    uint64_t n = v->kind == ZF_PV_DICT || (v->flags & ZF_PV_MAP) ? 2ull * v->n : v->n;

    if (v->kind == ZF_PV_TUPLE)
        return spend_all_later(h, v->at, v->n, stays, err);
    if (v->kind == ZF_PV_CALL) {
        const struct pv_more *more = v->flags & ZF_PV_MORE ? v->at[1].more : NULL;

        if (!spend_later(h, v->at[0].v, stays, err) ||
            !spend_later(h, more ? more->args : v->at[1].v, stays, err) ||
            (more && (!spend_later(h, more->kwargs, stays, err) ||
                      !spend_later(h, more->state, stays, err))))
            return false;
    }
    return !items || spend_all_later(h, items->at, n, stays, err);
}

static void spend_words(struct pickle_heap *h, void *p, uint64_t words)
{
    void **link = p;

    if (words <= ZF_PICKLE_WORDS) {
        link[1] = h->spent[words];
        h->spent[words] = p;
    }
}

/* The words of a value after its head. */
static uint64_t spend_slots(const struct zf_pv *v)
{
    switch ((enum zf_pv_kind)v->kind) {
    case ZF_PV_TUPLE:
        return v->n;
    case ZF_PV_STR:
    case ZF_PV_BYTES:
    case ZF_PV_BIGINT:
        return v->n / sizeof(union pv_slot) + 1;
    case ZF_PV_CALL:
    case ZF_PV_PERSID:
        return 2;
    default:
        return 1;
    }
}

static void spend_memory(struct pickle_heap *h, struct zf_pv *v)
{
    struct pv_items *items = spend_items_of(v);
    uint64_t slots = spend_slots(v);

    if (items && items->cap < ZF_PV_INDEXED)
        spend_words(h, items, items->cap + 1);
    else if (items)
        pickle_heap_recycle(h, items);
    if (v->kind == ZF_PV_CALL && (v->flags & ZF_PV_MORE))
        spend_words(h, v->at[1].more, sizeof(struct pv_more) / sizeof(union pv_slot));
    v->kind = ZF_PV_SPENT;
    spend_words(h, v, slots + 1);
}

void pickle_heap_give_back(struct pickle_heap *h, struct zf_pv *v)
{
    if (!(v->flags & (ZF_PV_SHARED | ZF_PV_MANY)) &&
        (v->kind == ZF_PV_PERSID || !spend_is_common(v)))
        spend_memory(h, v);
}

bool pickle_heap_spend(struct pickle_heap *h, struct zf_pv *v, struct zf_err *err)
{
    h->n_to_spend = 0;
    if (!spend_later(h, v, false, err))
        return false;
    while (h->n_to_spend) {
        uintptr_t word = h->to_spend[--h->n_to_spend];
        struct zf_pv *at = (struct zf_pv *)(word & ~(uintptr_t)STAYS);
        bool stays = word & STAYS;

        if (at->flags & ZF_PV_READ) /* was listed twice */
            continue;
        if (!spend_children(h, at, stays, err))
            return false;
        if (stays)
            at->flags |= ZF_PV_READ;
        else
            spend_memory(h, at);
    }
    return true;
}
