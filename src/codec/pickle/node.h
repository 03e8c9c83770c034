/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a pickled value in memory: an 8-byte head and 8-byte slots.  Including stack and memo,
 * the most expensive mixes of opcodes take 16 bytes per byte of pickle. */
#ifndef CODEC_PICKLE_NODE_H
#define CODEC_PICKLE_NODE_H

#include <zf/codec/pickle.h>

struct pv_items;
struct pv_more;
struct pickle_fold_form;

union pv_slot {
    int64_t i;
    double f;
    const struct zf_pv *v;
    struct pv_items *items;
    struct pv_more *more;
    struct zf_arena *arena;
    struct pv_index *index;
    const struct pickle_fold_form *form;
};

/*  kind            n                    slots
 *  NONE            0
 *  BOOL            0 or 1
 *  INT             -                    i
 *  FLOAT           -                    f
 *  BIGINT BYTES STR  bytes              the bytes and a NUL
 *  TUPLE           elements             v …
 *  LIST SET        elements             items
 *  DICT            pairs                items (key, value, key, value …)
 *  GLOBAL          -                    v module, v name (STR)
 *  CALL            elements or pairs    v callee, v args; with FLAG_MORE: v callee, more;
 *                                       folded: form, and bytes (fold.c)
 *  PERSID          -                    v id, v the next PERSID of the pickle or NULL
 *  EXT             -                    i code */
struct zf_pv {
    uint8_t kind;
    uint8_t flags;
    uint16_t depth; /* levels of values below this one; a leaf has 0 */
    uint32_t n;
    union pv_slot at[];
};

enum {
    ZF_PV_SHARED = 1,   /* a constant, never written; also an empty container */
    ZF_PV_HAS_NUL = 2,  /* STR: contains a NUL */
    ZF_PV_FOLDED = 2,   /* CALL: see fold.c; zf_pv_unfold gives its contents */
    ZF_PV_MORE = 4,     /* CALL: at[1] is `more` */
    ZF_PV_MAP = 8,      /* CALL: items are pairs */
    ZF_PV_ORDERED = 32, /* GLOBAL: collections.OrderedDict */
    ZF_PV_PACKED = 16,  /* LIST, SET, DICT, CALL: was put in a tuple */
    ZF_PV_LATE = 32,    /* LIST, SET, DICT, CALL: changed after it was put in a tuple */
    ZF_PV_MANY = 64,    /* may be referenced from several places */
    ZF_PV_READ = 128,   /* a caller read it before the pickle's end: it must not change any more */
};
#define ZF_PV_SPENT 255 /* kind of a value whose memory was given back */

/* The growing part of a container.  Blocks of ZF_PV_INDEXED slots and more have two slots after the
 * `cap` slots: the arena, and the index that zf_pv_get makes at the first lookup. */
struct pv_items {
    uint64_t cap; /* slots */
    union pv_slot at[];
};
#define ZF_PV_INDEXED 32u

/* The parts of a CALL beyond callee and arguments. */
struct pv_more {
    const struct zf_pv *args, *kwargs, *state;
    struct pv_items *items;
};

extern const struct zf_pv pv_none, pv_true, pv_false, pv_no_tuple, pv_no_list, pv_no_dict,
    pv_no_set;

/* Names for messages: "a list". */
extern const char *const pv_kind_names[];

/* The Python 3 name of a Python 2 module; module itself if the name is the same. */
const char *pv_module_now(const char *module);

/* The value of a text key of n bytes among many pairs, the last if there are several; NULL = absent.
 * The index is made at the first lookup and kept in the arena (index.c). */
const struct zf_pv *pickle_index_get(struct pv_items *items, uint32_t pairs, const char *key,
                                     uint64_t n);

/* Marks v as referenced from several places. */
static inline struct zf_pv *pickle_again(struct zf_pv *v)
{
    if (!(v->flags & ZF_PV_SHARED))
        v->flags |= ZF_PV_MANY;
    return v;
}

#endif
