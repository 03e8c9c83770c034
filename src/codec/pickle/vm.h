/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that reads a pickle: a stack, marks, a memo.  load.c runs it and checks every opcode
 * against its row of opcodes.def; ops.c, ops_const.c and call.c implement the opcodes. */
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
    struct pickle_bits asked; /* numbers that some GET uses */
    struct pickle_bits set;   /* other numbers that were set */
    uint32_t *before;         /* [asked.n] bits of `asked` that are set before this word */
    struct zf_pv **v; /* [n_asked] values of the numbers in `asked`, in order; NULL = not set */
    uint64_t n_asked;
    uint64_t n; /* count of numbers that were set */
};

/* Announces a number that some GET uses: all of these calls come first, then pickle_memo_begin, then the values.
 * Errors: ZF_E_LIMIT; ZF_E_NOMEM. */
bool pickle_memo_ask(struct pickle_memo *m, struct pickle_heap *h, uint64_t key,
                     struct zf_err *err) ZF_CHECKED;
bool pickle_memo_begin(struct pickle_memo *m, struct pickle_heap *h, struct zf_err *err) ZF_CHECKED;
/* The value of a number; NULL = not set. */
struct zf_pv *pickle_memo_get(const struct pickle_memo *m, uint64_t key);
/* Errors: ZF_E_LIMIT pickle_memo, pickle_memory; ZF_E_NOMEM. */
bool pickle_memo_put(struct pickle_memo *m, struct pickle_heap *h, uint64_t key, struct zf_pv *v,
                     struct zf_err *err) ZF_CHECKED;
void pickle_memo_fini(struct pickle_memo *m);

/* Finds duplicate keys in mappings.  Python keeps the last value, while a reader of the pairs in order
 * finds the first, so a pickle with duplicates is refused. */

/* The mappings of one pickle that have two keys or more. */
struct pickle_maps {
    struct zf_pv **v;
    uint64_t n, cap;
    uint64_t
        swept; /* the first `swept` of the n remained when the others were freed; they are checked */
    uint64_t work; /* units of work done so far (keys.c) */
};

/* Adds a mapping, once.  Errors: ZF_E_LIMIT pickle_memory. */
bool pickle_maps_add(struct pickle_maps *m, struct pickle_heap *h, struct zf_pv *map,
                     struct zf_err *err) ZF_CHECKED;
/* Checks the mappings added since the last sweep, after `bytes` bytes of the pickle were read.
 * Errors: ZF_E_FORMAT with the key; ZF_E_LIMIT keys so long that comparing them would take far longer
 * than reading the pickle. */
bool pickle_maps_check(struct pickle_maps *m, uint64_t bytes, struct zf_err *err) ZF_CHECKED;
/* Removes mappings that pickle_heap_spend freed, before their memory is reused. */
void pickle_maps_sweep(struct pickle_maps *m);
/* Like pickle_maps_check, for all mappings that are left at the pickle's end. */
bool pickle_maps_check_all(struct pickle_maps *m, uint64_t bytes, struct zf_err *err) ZF_CHECKED;
void pickle_maps_fini(struct pickle_maps *m);

/* A decoded operand: u, i or f is the number; p [n] the bytes or the line, p2 [n2] the second line. */
struct pickle_operand {
    uint64_t u;
    int64_t i;
    double f;
    const char *p, *p2;
    uint64_t n, n2;
};

/* Passes the pairs of a large mapping to a callback while the pickle is still being read. */

struct pickle_vm;

struct pickle_watch {
    const struct zf_pickle_watch *with; /* the callbacks; NULL = none */
    struct zf_pv *map;                  /* the mapping whose pairs are passed on; NULL = none */
    uint64_t base;                      /* stack height at its mark */
    uint64_t next;       /* stack height at which a pair may be complete; ZF_WATCH_NEVER: no pair */
    bool taken;          /* pairs above this mark were passed on */
    uint64_t given_back; /* bytes of the input whose memory was given back */
};
#define ZF_WATCH_NEVER UINT64_MAX

/* Called after a mark was set: does it begin pairs to pass on? */
bool pickle_watch_mark(struct pickle_vm *vm) ZF_CHECKED;
/* Called when the stack has the height `next`: passes complete pairs on. */
bool pickle_watch_step(struct pickle_vm *vm) ZF_CHECKED;
/* Called when the mark of the watched pairs is popped.  Errors: ZF_E_FORMAT some pairs are gone, but
 * the opcode is not the one that adds them to the mapping. */
bool pickle_watch_end(struct pickle_vm *vm, bool sets_pairs) ZF_CHECKED;
/* Called when the n values at `from` are added to `to`: passes the remaining pairs on; *done: `to` was watched. */
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
    uint64_t *mark; /* [n_marks] stack heights */
    uint64_t n_marks, marks_cap;
    uint64_t fence; /* no opcode pops below this height: the last mark, or 0 */
    uint64_t frame_end;
    bool cut;                           /* the input ended before the pickle did */
    const struct zf_pv *result;         /* set by STOP */
    struct zf_pv *first_pid, *last_pid; /* list of persistent ids; NULL if calls are folded */
    /* The current opcode: its offset, name and operand; the values that it took, still in the stack's
     * memory, so they must be read before the first push. */
    uint64_t op_off;
    const char *op;
    struct pickle_operand arg;
    struct zf_pv **popped; /* [pops of the row] */
    uint64_t n_popped;
    struct zf_pv **items; /* [n_items] the values above the mark */
    uint64_t n_items;
    struct zf_err *err;
};

typedef bool pickle_do_fn(struct pickle_vm *vm);

/* Pushes v; NULL: returns false, after a failure. */
static inline bool pickle_push(struct pickle_vm *vm, struct zf_pv *v)
{
    if (!v)
        return false;
    vm->stack[vm->sp++] = v;
    return true;
}

/* Pushes a constant, which is never written: code that writes makes a separate value first. */
static inline bool pickle_push_constant(struct pickle_vm *vm, const struct zf_pv *v)
{
    return pickle_push(vm, (struct zf_pv *)v);
}

/* If v is NULL, completes the callee's message to "opcode X <message>" with the opcode's offset.
 * Returns v. */
struct zf_pv *pickle_told(struct pickle_vm *vm, struct zf_pv *v);

/* Makes a TUPLE of n values from the stack; NULL on failure. */
struct zf_pv *pickle_tuple(struct pickle_vm *vm, struct zf_pv *const *from, uint64_t n);
/* Called before v changes; marks it if that is late (zf_pv_late).  Errors: ZF_E_FORMAT a caller read v before the
 * pickle's end, and it would change now. */
bool pickle_may_change(struct pickle_vm *vm, struct zf_pv *v);
/* Fails with ZF_E_FORMAT: the current opcode cannot be applied to a value like v. */
bool pickle_not_for(struct pickle_vm *vm, const struct zf_pv *v);

#define OP(code, name, operand, pops, to_mark, pushes, protocol, handler)                          \
    pickle_do_fn pickle_do_##handler;
#include "opcodes.def"
#undef OP

#endif
