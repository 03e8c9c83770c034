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
    uint8_t *slab; /* the unused rest of the last slab */
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
    void *spent[ZF_PICKLE_WORDS + 1];          /* freed values; [w]: list of those of w words */
    uintptr_t *to_spend;                       /* scratch of pickle_heap_spend */
    uint64_t n_to_spend, to_spend_cap;
};

void pickle_heap_init(struct pickle_heap *h, struct zf_arena *a, const struct zf_limits *lim);

/* Counts memory that is not the heap's own (stack, memo) against pickle_memory. */
bool pickle_heap_charge(struct pickle_heap *h, uint64_t bytes, struct zf_err *err) ZF_CHECKED;

/* Enlarges p, an array of *cap elements of `each` bytes, as realloc; charged.  NULL on failure, which
 * leaves p unchanged. */
void *pickle_heap_grow(struct pickle_heap *h, void *p, uint64_t each, uint64_t *cap,
                       struct zf_err *err) ZF_CHECKED;
/* Fails with ZF_E_NOMEM, when the system refuses memory that the limit would allow.  Returns
 * false. */
bool pickle_no_memory(struct zf_err *err);

/* Returns a value with `slots` slots; the caller sets n and depth. */
struct zf_pv *pickle_heap_new(struct pickle_heap *h, enum zf_pv_kind kind, uint64_t slots,
                              struct zf_err *err) ZF_CHECKED;
struct zf_pv *pickle_heap_int(struct pickle_heap *h, int64_t i, struct zf_err *err) ZF_CHECKED;
/* Returns a STR, BYTES or BIGINT of n bytes, copied from p unless that is NULL, and a final NUL. */
struct zf_pv *pickle_heap_text(struct pickle_heap *h, enum zf_pv_kind kind, const char *p,
                               uint64_t n, struct zf_err *err) ZF_CHECKED;
static inline char *pv_chars(struct zf_pv *v)
{
    return (char *)v->at;
}

/* Appends `slots` values to a LIST, SET, DICT or CALL. */
bool pickle_heap_add(struct pickle_heap *h, struct zf_pv *to, struct zf_pv *const *from,
                     uint64_t slots, struct zf_err *err) ZF_CHECKED;
/* Returns the `more` of a CALL, made at the first use; NULL on failure. */
struct pv_more *pickle_heap_more(struct pickle_heap *h, struct zf_pv *call,
                                 struct zf_err *err) ZF_CHECKED;
/* Frees the memory of v and of what only v refers to for values made later.  What may be referenced
 * from elsewhere, too, stays, as does everything below it; nothing may be added to it any more
 * (ZF_PV_READ).  Of a freed value only its kind, ZF_PV_SPENT, may be read, until the next value is
 * made.
 * Errors: ZF_E_LIMIT. */
bool pickle_heap_spend(struct pickle_heap *h, struct zf_pv *v, struct zf_err *err) ZF_CHECKED;
/* Frees an unused block of slots for the next container that grows. */
void pickle_heap_recycle(struct pickle_heap *h, struct pv_items *b);
/* Returns `bytes` (a multiple of 8) zeros; charged.  NULL on failure. */
void *pickle_heap_get(struct pickle_heap *h, uint64_t bytes, struct zf_err *err) ZF_CHECKED;
/* Frees the memory of v, which nothing refers to, for values made later, but not of the values in it.  Does nothing if
 * the heap itself shares v. */
void pickle_heap_give_back(struct pickle_heap *h, struct zf_pv *v);
/* Frees the heap's memory outside of the arena. */
void pickle_heap_fini(struct pickle_heap *h);
bool pickle_heap_too_deep(const struct pickle_heap *h, struct zf_err *err) ZF_CHECKED;
/* Raises the depth of v, which now holds child.  False: too deep. */
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
/* Moves n values from the stack to slots of `to`.  If there are very many, the stack's memory is given
 * back along the way, so that there are never two complete copies.
 */
bool pickle_heap_fill(struct pickle_heap *h, struct zf_pv *to, union pv_slot *at,
                      struct zf_pv *const *from, uint64_t n, struct zf_err *err) ZF_CHECKED;

#endif
