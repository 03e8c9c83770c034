/* SPDX-License-Identifier: Apache-2.0 */
/* Hands the pairs of a large mapping over while the pickle is still being read. */
#ifndef CODEC_PICKLE_WATCH_H
#define CODEC_PICKLE_WATCH_H

#include <zf/codec/pickle.h>

struct pickle_vm;

struct pickle_watch {
    const struct zf_pickle_watch *with; /* NULL = nobody reads along */
    struct zf_pv *map;                  /* whose pairs are handed over; NULL = none */
    uint64_t base;                      /* height of the stack at its mark */
    uint64_t next; /* the height at which the pair below may be complete; never reached: none is */
    bool taken;    /* pairs above this mark were handed over */
    uint64_t given_back; /* bytes of the input */
};
#define ZF_WATCH_NEVER UINT64_MAX

/* A mark was set. */
bool pickle_watch_mark(struct pickle_vm *vm) ZF_CHECKED;
/* The stack has the height `next`. */
bool pickle_watch_step(struct pickle_vm *vm) ZF_CHECKED;
/* The mark of the watched pairs is taken from the stack.  Errors: ZF_E_FORMAT by another opcode
 * than the one that sets them, when some are gone. */
bool pickle_watch_end(struct pickle_vm *vm, bool sets_pairs) ZF_CHECKED;
/* The pairs vm->items go to `to`: hands over what is left of them; *done: it was watched. */
bool pickle_watch_rest(struct pickle_vm *vm, struct zf_pv *to, struct zf_pv *const *from,
                       uint64_t n, bool *done) ZF_CHECKED;

#endif
