/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that reads a pickle: a stack, marks, a memo.  load.c runs it and checks every
 * opcode against its row of opcodes.def; ops.c, ops_const.c and call.c say what each does. */
#ifndef CODEC_PICKLE_VM_H
#define CODEC_PICKLE_VM_H

#include <zf/codec/pickle.h>

#include "fold.h"
#include "heap.h"

/* A set of numbers. */
struct pickle_bits {
    uint64_t *word; /* [n] */
    uint64_t n;
};

struct pickle_memo {
    struct pickle_bits asked; /* numbers that some GET asks for */
    struct pickle_bits set;   /* numbers that have a value, of the others */
    uint32_t *before;         /* [asked.n] how many are asked for, of those before the word */
    struct zf_pv **v;         /* [n_asked] their values in order; NULL = not set */
    uint64_t n_asked;
    uint64_t n; /* numbers that have a value */
};

/* Some GET asks for the number: all of these come first, then pickle_memo_begin, then the values.  Errors: ZF_E_LIMIT;
 * ZF_E_NOMEM. */
bool pickle_memo_ask(struct pickle_memo *m, struct pickle_heap *h, uint64_t key,
                     struct zf_err *err) ZF_CHECKED;
bool pickle_memo_begin(struct pickle_memo *m, struct pickle_heap *h, struct zf_err *err) ZF_CHECKED;
/* NULL = not set. */
struct zf_pv *pickle_memo_get(const struct pickle_memo *m, uint64_t key);
/* Errors: ZF_E_LIMIT pickle_memo, pickle_memory; ZF_E_NOMEM. */
bool pickle_memo_put(struct pickle_memo *m, struct pickle_heap *h, uint64_t key, struct zf_pv *v,
                     struct zf_err *err) ZF_CHECKED;
void pickle_memo_fini(struct pickle_memo *m);

/* Finds keys that a mapping has twice.  Python keeps the value of the last one; whoever reads the
 * pairs in their order meets the first, so a pickle in which this happens is refused. */

/* The mappings of one pickle that have two keys or more. */
struct pickle_maps {
    struct zf_pv **v;
    uint64_t n, cap;
    uint64_t swept; /* of n: those that stayed when the others were spent */
    uint64_t work;  /* done so far */
};

/* Adds a mapping, once.  Errors: ZF_E_LIMIT pickle_memory. */
bool pickle_maps_add(struct pickle_maps *m, struct pickle_heap *h, struct zf_pv *map,
                     struct zf_err *err) ZF_CHECKED;
/* Looks through those that were added since the last sweep, when `bytes` bytes of the pickle are read.
 * Errors: ZF_E_FORMAT with the key; ZF_E_LIMIT keys so long that comparing them would take longer
 * than reading the pickle by far. */
bool pickle_maps_check(struct pickle_maps *m, uint64_t bytes, struct zf_err *err) ZF_CHECKED;
/* Forgets mappings that are spent (pickle_heap_spend), before a value is made where one of them was. */
void pickle_maps_sweep(struct pickle_maps *m);
/* The same as pickle_maps_check for all that are left, when the pickle is complete. */
bool pickle_maps_check_all(struct pickle_maps *m, uint64_t bytes, struct zf_err *err) ZF_CHECKED;
void pickle_maps_fini(struct pickle_maps *m);

/* Decoded: u, i or f is the number; p [n] the bytes or the line, p2 [n2] the second line. */
struct pickle_operand {
    uint64_t u;
    int64_t i;
    double f;
    const char *p, *p2;
    uint64_t n, n2;
};

/* Hands the pairs of a large mapping over while the pickle is still being read. */

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

struct pickle_vm {
    struct pickle_heap heap;
    struct pickle_memo memo;
    struct pickle_maps maps;
    struct pickle_watch watch;
    struct pickle_folds folds;
    struct zf_bytes in;
    struct zf_pv **stack;
    uint64_t sp, cap;
    uint64_t *mark; /* heights of the stack */
    uint64_t n_marks, marks_cap;
    uint64_t fence; /* no opcode reaches below: the last mark, or 0 */
    uint64_t frame_end;
    bool cut;                           /* the input ended before the pickle did */
    const struct zf_pv *result;         /* set by STOP */
    struct zf_pv *first_pid, *last_pid; /* of a pickle that is folded: none is listed */
    /* The opcode at work: its place, name and operand; what it took, still in the stack's memory,
     * so read before the first push. */
    uint64_t op_off;
    const char *op;
    struct pickle_operand arg;
    struct zf_pv **popped; /* [pops of the row] */
    uint64_t n_popped;
    struct zf_pv **items; /* [n_items] down to the mark */
    uint64_t n_items;
    struct zf_err *err;
};

typedef bool pickle_do_fn(struct pickle_vm *vm);

/* Pushes v; NULL passes a failure on. */
static inline bool pickle_push(struct pickle_vm *vm, struct zf_pv *v)
{
    if (!v)
        return false;
    vm->stack[vm->sp++] = v;
    return true;
}

/* Constants are never written: whoever wants to write makes a value of its own first. */
static inline bool pickle_push_constant(struct pickle_vm *vm, const struct zf_pv *v)
{
    return pickle_push(vm, (struct zf_pv *)v);
}

/* "opcode X <predicate>" of a message that a callee began when it gave v = NULL; its offset is
 * ours. */
struct zf_pv *pickle_told(struct pickle_vm *vm, struct zf_pv *v);

/* A TUPLE of n values from the stack; NULL on failure. */
struct zf_pv *pickle_tuple(struct pickle_vm *vm, struct zf_pv *const *from, uint64_t n);
/* Before v changes, which it remembers where that is late (zf_pv_late).  False, ZF_E_FORMAT: v was read by somebody
 * before the pickle was at its end, and would now change. */
bool pickle_may_change(struct pickle_vm *vm, struct zf_pv *v);
/* ZF_E_FORMAT: the opcode at work cannot be carried out on a value like v. */
bool pickle_not_for(struct pickle_vm *vm, const struct zf_pv *v);

#define OP(code, name, operand, pops, to_mark, pushes, protocol, handler)                          \
    pickle_do_fn pickle_do_##handler;
#include "opcodes.def"
#undef OP

#endif
