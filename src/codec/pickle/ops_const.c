/* SPDX-License-Identifier: Apache-2.0 */
/* The opcodes that push one value made from their operand alone: constants, numbers, text. */
#include <string.h>

#include "text.h"
#include "vm.h"

struct zf_pv *pickle_told(struct pickle_vm *vm, struct zf_pv *v)
{
    char what[sizeof vm->err->msg];

    if (!v && vm->err->code == ZF_E_FORMAT) {
        memcpy(what, vm->err->msg, sizeof what);
        (void)zf_fail(vm->err, ZF_E_FORMAT, vm->op_off, "opcode %s %s", vm->op, what);
    }
    return v;
}

static bool ops_push_told(struct pickle_vm *vm, struct zf_pv *v)
{
    return pickle_push(vm, pickle_told(vm, v));
}

/* ---- constants and numbers ---- */

bool pickle_do_none(struct pickle_vm *vm)
{
    return pickle_push_constant(vm, &pv_none);
}

bool pickle_do_true(struct pickle_vm *vm)
{
    return pickle_push_constant(vm, &pv_true);
}

bool pickle_do_false(struct pickle_vm *vm)
{
    return pickle_push_constant(vm, &pv_false);
}

bool pickle_do_int(struct pickle_vm *vm)
{
    return pickle_push(vm, pickle_heap_int(&vm->heap, vm->arg.i, vm->err));
}

bool pickle_do_old(struct pickle_vm *vm)
{
    return zf_fail(vm->err, ZF_E_UNSUPPORTED, vm->op_off,
                   "opcode %s of pickle protocol 0; protocols 2 to 5 are read", vm->op);
}

/* Python 2 writes numbers of more than 32 bits as a line in protocol 2, too.  "00" and "01" are booleans, in
 * protocols 0 and 1 only. */
bool pickle_do_int_text(struct pickle_vm *vm)
{
    if (vm->arg.n > 1 && vm->arg.p[0] == '0')
        return pickle_do_old(vm);
    return ops_push_told(vm, pickle_text_int(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool pickle_do_long(struct pickle_vm *vm)
{
    return pickle_push(vm, pickle_text_twos(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool pickle_do_float(struct pickle_vm *vm)
{
    struct zf_pv *v = pickle_heap_new(&vm->heap, ZF_PV_FLOAT, 1, vm->err);

    if (v)
        v->at[0].f = vm->arg.f;
    return pickle_push(vm, v);
}

/* ---- text and bytes ---- */

bool pickle_do_string(struct pickle_vm *vm)
{
    return pickle_push(vm, pickle_text_str2(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool pickle_do_unicode(struct pickle_vm *vm)
{
    return ops_push_told(vm, pickle_text_str(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool pickle_do_bytes(struct pickle_vm *vm)
{
    return pickle_push(vm, pickle_heap_text(&vm->heap, ZF_PV_BYTES, vm->arg.p, vm->arg.n, vm->err));
}
