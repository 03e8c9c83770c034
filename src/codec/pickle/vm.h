/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that reads a pickle: a stack, marks, a memo.  load.c runs it and checks every
 * opcode against its row of ops.def; ops.c, ops_const.c and call.c say what each does. */
#ifndef CODEC_PICKLE_VM_H
#define CODEC_PICKLE_VM_H

#include "fold.h"
#include "heap.h"
#include "keys.h"
#include "memo.h"
#include "watch.h"

/* Decoded: u, i or f is the number; p [n] the bytes or the line, p2 [n2] the second line. */
struct pickle_operand {
    uint64_t u;
    int64_t i;
    double f;
    const char *p, *p2;
    uint64_t n, n2;
};

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
    struct zf_pv *first_pid, *last_pid; /* of a pickle that is folded: none is kept */
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
    if (!v) {
        return false;
    }
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
#include "ops.def"
#undef OP

#endif
