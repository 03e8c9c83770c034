/* SPDX-License-Identifier: Apache-2.0 */
/* The opcodes that push one value made of nothing but their operand: constants, numbers, text. */
#include <string.h>

#include "text.h"
#include "vm.h"

struct zf_pv *zf_pickle_told(struct zf_pickle_vm *vm, struct zf_pv *v)
{
    char what[sizeof vm->err->msg];

    if (!v && vm->err->code == ZF_E_FORMAT) {
        memcpy(what, vm->err->msg, sizeof what);
        (void)zf_fail(vm->err, ZF_E_FORMAT, vm->op_off, "opcode %s %s", vm->op, what);
    }
    return v;
}

/* Nobody writes to constants: see own() of pickle_do.c. */
static bool push_constant(struct zf_pickle_vm *vm, const struct zf_pv *v)
{
    return zf_pickle_push(vm, (struct zf_pv *)v);
}

static bool push_told(struct zf_pickle_vm *vm, struct zf_pv *v)
{
    return zf_pickle_push(vm, zf_pickle_told(vm, v));
}

/* ---- constants and numbers ---- */

bool zf_pickle_do_none(struct zf_pickle_vm *vm)
{
    return push_constant(vm, &zf_pv_none);
}

bool zf_pickle_do_true(struct zf_pickle_vm *vm)
{
    return push_constant(vm, &zf_pv_true);
}

bool zf_pickle_do_false(struct zf_pickle_vm *vm)
{
    return push_constant(vm, &zf_pv_false);
}

bool zf_pickle_do_int(struct zf_pickle_vm *vm)
{
    return zf_pickle_push(vm, zf_pickle_heap_int(&vm->heap, vm->arg.i, vm->err));
}

bool zf_pickle_do_int_text(struct zf_pickle_vm *vm)
{
    /* Protocols 0 and 1 write booleans with a needless zero. */
    if (vm->arg.n == 2 && vm->arg.p[0] == '0' && (vm->arg.p[1] == '0' || vm->arg.p[1] == '1')) {
        return push_constant(vm, vm->arg.p[1] == '1' ? &zf_pv_true : &zf_pv_false);
    }
    return push_told(vm, zf_pickle_text_int(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool zf_pickle_do_long_text(struct zf_pickle_vm *vm)
{
    return push_told(vm, zf_pickle_text_int(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool zf_pickle_do_long(struct zf_pickle_vm *vm)
{
    return zf_pickle_push(vm, zf_pickle_text_twos(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool zf_pickle_do_float_text(struct zf_pickle_vm *vm)
{
    return push_told(vm, zf_pickle_text_float(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool zf_pickle_do_float(struct zf_pickle_vm *vm)
{
    struct zf_pv *v = zf_pickle_heap_new(&vm->heap, ZF_PV_FLOAT, 1, vm->err);

    if (v) {
        v->at[0].f = vm->arg.f;
    }
    return zf_pickle_push(vm, v);
}

/* ---- text and bytes ---- */

bool zf_pickle_do_string_text(struct zf_pickle_vm *vm)
{
    return push_told(vm, zf_pickle_text_quoted(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool zf_pickle_do_string(struct zf_pickle_vm *vm)
{
    return zf_pickle_push(vm, zf_pickle_text_str2(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool zf_pickle_do_unicode_text(struct zf_pickle_vm *vm)
{
    return push_told(vm, zf_pickle_text_raw_unicode(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool zf_pickle_do_unicode(struct zf_pickle_vm *vm)
{
    return push_told(vm, zf_pickle_text_str(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
}

bool zf_pickle_do_bytes(struct zf_pickle_vm *vm)
{
    return zf_pickle_push(
        vm, zf_pickle_heap_text(&vm->heap, ZF_PV_BYTES, vm->arg.p, vm->arg.n, vm->err));
}
