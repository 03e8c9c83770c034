/* SPDX-License-Identifier: Apache-2.0 */
/* The pickle machine.  A row of opcodes.def per opcode defines its operand, what it takes from the
 * stack, and its function.  The operand is read and the stack is checked here, for all opcodes, so
 * that the functions in ops.c, ops_const.c and call.c can rely on both.  Nothing is ever called or
 * imported: REDUCE and the like make a CALL value. */
#include <zf/codec/pickle.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>

#include "vm.h"

/* The operand after an opcode byte.  BYTESn: an n-byte length and that many bytes; S: the length is
 * signed. */
enum operand_kind {
    ARG_NONE,
    ARG_U1,
    ARG_U2,
    ARG_I4,
    ARG_U4,
    ARG_U8,
    ARG_F8, /* big-endian */
    ARG_BYTES1,
    ARG_BYTES4,
    ARG_BYTES4S,
    ARG_BYTES8,
    ARG_LINE,
    ARG_LINES, /* two lines */
};

struct op {
    const char *name; /* NULL: no such opcode */
    pickle_do_fn *run;
    uint8_t operand, pops, to_mark;
};

static const struct op ops[256] = {
#define OP(code, name, operand, pops, to_mark, pushes, protocol, handler)                          \
    [code] = {#name, pickle_do_##handler, ARG_##operand, pops, to_mark},
#include "opcodes.def"
#undef OP
};

static bool load_blob(struct pickle_vm *vm, uint64_t len)
{
    struct pickle_operand *a = &vm->arg;

    if (vm->in.bad)
        return true;
    a->n = len;
    if (len > zf_bytes_left(&vm->in)) {
        vm->cut = true;
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode %s announces %llu bytes, but only %llu are left", vm->op,
                       (unsigned long long)len, (unsigned long long)zf_bytes_left(&vm->in));
    }
    a->p = zf_bytes_take(&vm->in, len);
    return true;
}

static bool load_signed_blob(struct pickle_vm *vm)
{
    int32_t len = (int32_t)zf_bytes_le32(&vm->in);

    if (len < 0) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off, "opcode %s has a negative length, %d",
                       vm->op, len);
    }
    return load_blob(vm, (uint64_t)len);
}

/* Reads the opcode's operand into vm->arg. */
static bool load_operand(struct pickle_vm *vm, enum operand_kind kind)
{
    struct pickle_operand *a = &vm->arg;
    struct zf_bytes *in = &vm->in;

    switch (kind) {
    case ARG_NONE:
        return true;
    case ARG_U1:
        a->u = zf_bytes_u8(in);
        break;
    case ARG_U2:
        a->u = zf_bytes_le16(in);
        break;
    case ARG_U4:
        a->u = zf_bytes_le32(in);
        break;
    case ARG_I4:
        a->i = (int32_t)zf_bytes_le32(in);
        return true;
    case ARG_U8:
        a->u = zf_bytes_le64(in);
        break;
    case ARG_F8:
        a->u = zf_bytes_be64(in);
        memcpy(&a->f, &a->u, sizeof a->f);
        return true;
    case ARG_BYTES1:
        return load_blob(vm, zf_bytes_u8(in));
    case ARG_BYTES4:
        return load_blob(vm, zf_bytes_le32(in));
    case ARG_BYTES4S:
        return load_signed_blob(vm);
    case ARG_BYTES8:
        return load_blob(vm, zf_bytes_le64(in));
    case ARG_LINE:
        a->p = zf_bytes_line(in, &a->n);
        break;
    case ARG_LINES:
        a->p = zf_bytes_line(in, &a->n);
        a->p2 = zf_bytes_line(in, &a->n2);
        break;
    }
    a->i = (int64_t)a->u;
    return true;
}

/* Makes room for one value more than any opcode adds. */
static bool load_grow_stack(struct pickle_vm *vm)
{
    if (vm->cap - vm->sp >= 2)
        return true;
    struct zf_pv **p = pickle_heap_grow(&vm->heap, vm->stack, sizeof *p, &vm->cap, vm->err);

    vm->stack = p ? p : vm->stack;
    return p != NULL;
}

/* Takes from the stack what the row says; the only place where the stack is checked. */
static bool load_take(struct pickle_vm *vm, const struct op *op)
{
    if (op->to_mark) {
        if (vm->n_marks == 0) {
            return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off, "opcode %s finds no mark on the stack",
                           op->name);
        }
        uint64_t mark = vm->mark[--vm->n_marks];
        vm->n_items = vm->sp - mark;
        vm->sp = mark;
        vm->fence = vm->n_marks ? vm->mark[vm->n_marks - 1] : 0;
        if (vm->n_marks == 1 && vm->watch.map &&
            !pickle_watch_end(vm, op->run == pickle_do_setitems))
            return false;
    }
    if (vm->sp - vm->fence < op->pops) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode %s takes %u %s from the stack, which holds %llu", op->name, op->pops,
                       op->pops == 1 ? "value" : "values",
                       (unsigned long long)(vm->sp - vm->fence));
    }
    if (!load_grow_stack(vm))
        return false;
    vm->items = vm->stack + vm->sp;
    vm->n_popped = op->pops;
    vm->sp -= op->pops;
    vm->popped = vm->stack + vm->sp;
    return true;
}

static bool load_ends_early(struct pickle_vm *vm, const char *what, uint64_t limit)
{
    vm->cut = true;
    if (vm->in.n == limit) {
        return zf_fail_limit(vm->err, ZF_LIMIT_pickle_bytes, vm->op_off,
                             "the pickle is longer than the limit pickle_bytes allows (%llu)",
                             (unsigned long long)vm->heap.lim->pickle_bytes);
    }
    return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off, "%s", what);
}

/* Was a frame's end crossed within an opcode?  Frames hold whole opcodes, and are not nested. */
static bool load_frame_crossed(const struct pickle_vm *vm)
{
    return vm->in.at > vm->frame_end && vm->op_off - vm->in.base < vm->frame_end;
}

static bool load_step(struct pickle_vm *vm, uint64_t limit)
{
    struct zf_bytes *in = &vm->in;

    vm->op_off = zf_bytes_off(in);
    if (in->at == in->n)
        return load_ends_early(vm, "the pickle ends without STOP", limit);
    uint8_t code = in->p[in->at++];
    const struct op *op = &ops[code];
    if (!op->name)
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off, "0x%02x is not a pickle opcode", code);
    vm->op = op->name;
    if (!load_operand(vm, op->operand))
        return in->n == limit ? load_ends_early(vm, "", limit) : false;
    if (in->bad) {
        char what[80];
        (void)snprintf(what, sizeof what, "the pickle ends within opcode %s", op->name);
        return load_ends_early(vm, what, limit);
    }
    if (load_frame_crossed(vm)) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode %s reaches beyond the end of its frame", op->name);
    }
    return load_take(vm, op) && op->run(vm) && (vm->sp != vm->watch.next || pickle_watch_step(vm));
}

/* Reads past an opcode and its operand.  NULL: there is no such opcode, or it is truncated. */
static const struct op *load_over(struct pickle_vm *over)
{
    const struct op *op = &ops[over->in.p[over->in.at++]];

    over->op = op->name;
    return op->name && load_operand(over, op->operand) && !over->in.bad ? op : NULL;
}

bool zf_pickle_end(struct zf_bytes *in, uint64_t *want_out)
{
    struct zf_err ignored;
    struct pickle_vm over = {.in = *in, .err = &ignored};

    *want_out = 1;
    while (zf_bytes_left(&over.in) > 0) {
        const struct op *op = load_over(&over);

        if (!op) {
            in->bad = over.cut || over.in.bad;
            *want_out = over.in.at - in->at;
            *want_out += over.cut ? over.arg.n : 1;
            return false;
        }
        if (op->run == pickle_do_frame && over.arg.u > zf_bytes_left(&over.in)) {
            in->bad = true;
            if (!zf_add(over.in.at - in->at, over.arg.u, want_out))
                *want_out = UINT64_MAX;
            return false;
        }
        in->at = over.in.at;
        if (op->run == pickle_do_stop)
            return true;
    }
    in->bad = true;
    return false;
}

/* Reads through the pickle once to find the memo numbers that it gets.  Stops at damage, which the
 * second reading will report. */
static bool load_begin_memo(struct pickle_vm *vm)
{
    struct zf_err ignored;
    struct pickle_vm over = {.in = vm->in, .err = &ignored};
    const struct op *op = NULL;

    vm->heap.in = &over.in; /* bytes read here count as bytes of the file, too */
    while (zf_bytes_left(&over.in) > 0 && (!op || op->run != pickle_do_stop)) {
        op = load_over(&over);
        if (!op)
            break;
        if (op->run == pickle_do_get && !pickle_memo_ask(&vm->memo, &vm->heap, over.arg.u, vm->err))
            return false;
    }
    const bool ok = pickle_memo_begin(&vm->memo, &vm->heap, vm->err);
    vm->heap.in = &vm->in;
    return ok;
}

static void zf_auto_vm(struct pickle_vm *vm)
{
    free(vm->stack);
    free(vm->mark);
    pickle_memo_fini(&vm->memo);
    pickle_maps_fini(&vm->maps);
    pickle_heap_fini(&vm->heap);
}

static const struct zf_pv *load_all(struct pickle_vm *vm, struct zf_bytes *in, uint64_t stored,
                                    struct zf_arena *arena, const struct zf_limits *lim)
{
    uint64_t limit = UINT64_MAX; /* vm->in.n, if that is less than the input */

    pickle_heap_init(&vm->heap, arena, lim);
    vm->heap.in = &vm->in;
    vm->heap.start = in->at;
    vm->heap.stored = stored;
    vm->heap.bytes = in->n > stored ? in->n - stored : 0; /* the pickle itself, decompressed */
    vm->watch.next = ZF_WATCH_NEVER;
    vm->watch.given_back = in->at;
    if (zf_bytes_left(in) > lim->pickle_bytes)
        limit = vm->in.n = in->at + lim->pickle_bytes;
    if (!load_begin_memo(vm))
        return NULL;
    while (!vm->result) {
        if (!load_step(vm, limit)) {
            vm->err->off = vm->err->off == ZF_OFF_NONE ? vm->op_off : vm->err->off;
            in->bad = vm->cut;
            return NULL;
        }
    }
    if (!pickle_maps_check_all(&vm->maps, vm->in.at - in->at, vm->err))
        return NULL;
    in->at = vm->in.at;
    return vm->result;
}

const struct zf_pv *zf_pickle_load_with(struct zf_bytes *in, struct zf_arena *arena,
                                        const struct zf_limits *lim,
                                        const struct zf_pickle_with *with, struct zf_err *err)
{
    zf_auto(vm) struct pickle_vm vm = {
        .in = *in, .err = err, .watch.with = with->watch, .folds.wanted = with->folded};
    const struct zf_pv *v = load_all(&vm, in, with->stored ? with->stored : UINT64_MAX, arena, lim);

    if (with->pids_out)
        *with->pids_out = v ? vm.first_pid : NULL;
    return v;
}

const struct zf_pv *zf_pickle_load(struct zf_bytes *in, struct zf_arena *arena,
                                   const struct zf_limits *lim, struct zf_err *err)
{
    return zf_pickle_load_with(in, arena, lim, &(struct zf_pickle_with){0}, err);
}
