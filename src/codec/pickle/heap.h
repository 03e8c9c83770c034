/* SPDX-License-Identifier: Apache-2.0 */
/* Makes values in an arena, within the limits on their number, memory and depth. */
#ifndef CODEC_PICKLE_HEAP_H
#define CODEC_PICKLE_HEAP_H

#include "node.h"

#define ZF_PICKLE_CLASSES 34
#define ZF_PICKLE_WORDS 64

struct pickle_heap {
    struct zf_arena *arena;
    const struct zf_limits *lim;
    uint8_t *slab; /* what is left of the last one */
    uint64_t slab_left, slab_next;
    uint64_t objects, bytes;
    /* The bytes read so far, from `start` of `in` on; at most `stored` of them are on disk. */
    const struct zf_bytes *in;
    uint64_t start, stored;
    uint16_t max_depth;
    struct zf_pv *small[256];  /* one value for each small int */
    struct zf_pv *letter[128]; /* one STR for each ASCII letter */
    struct zf_pv *no_text, *next_buffer, *last_global;
    struct pv_items *spare[ZF_PICKLE_CLASSES]; /* outgrown blocks; class c holds >= 2^c slots */
    void *spent[ZF_PICKLE_WORDS + 1]; /* memory of values that are gone; [w] holds w words */
    uintptr_t *to_spend;              /* scratch of pickle_heap_spend */
    uint64_t n_to_spend, to_spend_cap;
};

void pickle_heap_init(struct pickle_heap *h, struct zf_arena *a, const struct zf_limits *lim);

/* Counts memory that is not the heap's own (stack, memo) against pickle_memory. */
bool pickle_heap_charge(struct pickle_heap *h, uint64_t bytes, struct zf_err *err) ZF_CHECKED;

/* The memory of p [*cap] things of `each` bytes for more of them, as realloc; charged.  NULL on
 * failure, and then p is as it was. */
void *pickle_heap_grow(struct pickle_heap *h, void *p, uint64_t each, uint64_t *cap,
                       struct zf_err *err) ZF_CHECKED;
/* The sentence for memory that the system does not give: ZF_E_NOMEM; the limit is only how much
 * of it there could be.  Returns false. */
bool pickle_no_memory(struct zf_err *err);

/* A value with room for `slots` slots; n and depth are the caller's. */
struct zf_pv *pickle_heap_new(struct pickle_heap *h, enum zf_pv_kind kind, uint64_t slots,
                              struct zf_err *err) ZF_CHECKED;
struct zf_pv *pickle_heap_int(struct pickle_heap *h, int64_t i, struct zf_err *err) ZF_CHECKED;
/* STR, BYTES or BIGINT with n bytes, copied from p unless that is NULL; the NUL is there. */
struct zf_pv *pickle_heap_text(struct pickle_heap *h, enum zf_pv_kind kind, const char *p,
                               uint64_t n, struct zf_err *err) ZF_CHECKED;
static inline char *pv_chars(struct zf_pv *v)
{
    return (char *)v->at;
}

/* Appends `slots` values to a LIST, SET, DICT or CALL. */
bool pickle_heap_add(struct pickle_heap *h, struct zf_pv *to, struct zf_pv *const *from,
                     uint64_t slots, struct zf_err *err) ZF_CHECKED;
/* Gives a CALL its `more`; NULL on failure. */
struct pv_more *pickle_heap_more(struct pickle_heap *h, struct zf_pv *call,
                                 struct zf_err *err) ZF_CHECKED;
/* Gives the memory of v and of what only v holds to values that are made later.  What may be
 * referenced from elsewhere too stays, and so does all below it; nothing may be added to it any
 * more (ZF_PV_READ).  Of a value that is gone nothing but its kind can still be read, until the
 * next value is made: ZF_PV_SPENT.
 * Errors: ZF_E_LIMIT. */
bool pickle_heap_spend(struct pickle_heap *h, struct zf_pv *v, struct zf_err *err) ZF_CHECKED;
/* Keeps a block of slots that nothing uses any more for the next container that grows. */
void pickle_heap_recycle(struct pickle_heap *h, struct pv_items *b);
/* bytes, a multiple of 8, of zeros; charged.  NULL on failure. */
void *pickle_heap_get(struct pickle_heap *h, uint64_t bytes, struct zf_err *err) ZF_CHECKED;
/* Gives the memory of v, which nobody has any more, to values that are made later; what it held stays.  Does nothing
 * to what the heap itself remembers. */
void pickle_heap_give_back(struct pickle_heap *h, struct zf_pv *v);
/* Frees the heap's memory outside of the arena. */
void pickle_heap_fini(struct pickle_heap *h);
bool pickle_heap_too_deep(const struct pickle_heap *h, struct zf_err *err) ZF_CHECKED;
/* v now holds child: raises its depth.  False when that is too deep. */
ZF_CHECKED static inline bool pickle_heap_holds(const struct pickle_heap *h, struct zf_pv *v,
                                                const struct zf_pv *child, struct zf_err *err)
{
    if (child->depth < v->depth)
        return true;
    if (child->depth >= h->max_depth)
        return pickle_heap_too_deep(h, err);
    v->depth = (uint16_t)(child->depth + 1);
    return true;
}
/* Copies n values from the stack to slots of `to`.  The stack's memory is given back along the way
 * when they are very many, so that both are never whole at the same time: they are gone from there.
 */
bool pickle_heap_fill(struct pickle_heap *h, struct zf_pv *to, union pv_slot *at,
                      struct zf_pv *const *from, uint64_t n, struct zf_err *err) ZF_CHECKED;

#endif
