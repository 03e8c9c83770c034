/* SPDX-License-Identifier: Apache-2.0 */
/* All opcodes except those in ops_const.c and call.c.  Stack and operand are already checked and
 * taken: see vm.h. */
#include <stdlib.h>

#include "vm.h"

/* Turns the shared constant for an empty container into a separate value, only when that can be observed: when it is
 * memoized, duplicated or gets an item. */
static struct zf_pv *ops_own(struct pickle_vm *vm, struct zf_pv *v)
{
    bool grows = v->kind == ZF_PV_LIST || v->kind == ZF_PV_DICT || v->kind == ZF_PV_SET;

    if (!(v->flags & ZF_PV_SHARED) || !grows)
        return v;
    return pickle_heap_new(&vm->heap, v->kind, 1, vm->err);
}

/* ---- housekeeping ---- */

bool pickle_do_proto(struct pickle_vm *vm)
{
    if (vm->arg.u > 5) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "pickle protocol %u is not known, only 0 to 5", (unsigned)vm->arg.u);
    }
    return true;
}

bool pickle_do_frame(struct pickle_vm *vm)
{
    if (vm->op_off - vm->in.base < vm->frame_end)
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off, "a frame begins inside another frame");
    if (vm->arg.u > zf_bytes_left(&vm->in)) {
        vm->cut = true;
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "a frame of %llu bytes begins, but only %llu are left",
                       (unsigned long long)vm->arg.u, (unsigned long long)zf_bytes_left(&vm->in));
    }
    vm->frame_end = vm->in.at + vm->arg.u;
    return true;
}

bool pickle_do_stop(struct pickle_vm *vm)
{
    vm->result = vm->popped[0];
    return true;
}

bool pickle_do_nothing(struct pickle_vm *vm)
{
    (void)vm;
    return true;
}

bool pickle_do_mark(struct pickle_vm *vm)
{
    if (vm->n_marks == vm->marks_cap) {
        uint64_t *p = pickle_heap_grow(&vm->heap, vm->mark, sizeof *p, &vm->marks_cap, vm->err);

        if (!p)
            return false;
        vm->mark = p;
    }
    vm->mark[vm->n_marks++] = vm->fence = vm->sp;
    return !vm->watch.with || pickle_watch_mark(vm);
}

bool pickle_do_pop(struct pickle_vm *vm)
{
    if (vm->sp > vm->fence) {
        vm->sp--;
        return true;
    }
    if (vm->n_marks == 0)
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off, "opcode POP finds nothing on the stack");
    vm->n_marks--;
    vm->fence = vm->n_marks ? vm->mark[vm->n_marks - 1] : 0;
    return vm->n_marks != 1 || !vm->watch.map || pickle_watch_end(vm, false);
}

bool pickle_do_dup(struct pickle_vm *vm)
{
    struct zf_pv *v = ops_own(vm, vm->popped[0]);

    return pickle_push(vm, v) && pickle_push(vm, pickle_again(v));
}

static bool ops_push_ext(struct pickle_vm *vm, int64_t code)
{
    struct zf_pv *v = pickle_heap_new(&vm->heap, ZF_PV_EXT, 1, vm->err);

    if (v)
        v->at[0].i = code;
    return pickle_push(vm, v);
}

bool pickle_do_next_buffer(struct pickle_vm *vm)
{
    struct zf_pv **known = &vm->heap.next_buffer;

    if (*known)
        return pickle_push(vm, *known);
    if (!ops_push_ext(vm, -1)) /* the buffer is stored outside the pickle */
        return false;
    *known = vm->stack[vm->sp - 1];
    return true;
}

bool pickle_do_readonly_buffer(struct pickle_vm *vm)
{
    return pickle_push(vm, vm->popped[0]);
}

/* ---- containers ---- */

static bool ops_can_change(const struct zf_pv *v)
{
    return v->kind == ZF_PV_LIST || v->kind == ZF_PV_SET || v->kind == ZF_PV_DICT ||
           v->kind == ZF_PV_CALL;
}

struct zf_pv *pickle_tuple(struct pickle_vm *vm, struct zf_pv *const *from, uint64_t n)
{
    if (n == 0)
        return (struct zf_pv *)&pv_no_tuple;
    struct zf_pv *v = pickle_heap_new(&vm->heap, ZF_PV_TUPLE, n, vm->err);
    if (!v)
        return NULL;
    v->n = (uint32_t)n;
    if (!pickle_heap_fill(&vm->heap, v, v->at, from, n, vm->err))
        return NULL;
    for (uint64_t i = 0; i < n; i++) {
        struct zf_pv *in = (struct zf_pv *)v->at[i].v;

        if (ops_can_change(in) && !(in->flags & ZF_PV_SHARED))
            in->flags |= ZF_PV_PACKED;
    }
    return v;
}

bool pickle_do_tuple(struct pickle_vm *vm)
{
    return pickle_push(vm, pickle_tuple(vm, vm->popped, vm->n_popped));
}

bool pickle_do_tuple_mark(struct pickle_vm *vm)
{
    return pickle_push(vm, pickle_tuple(vm, vm->items, vm->n_items));
}

bool pickle_do_empty_list(struct pickle_vm *vm)
{
    return pickle_push_constant(vm, &pv_no_list);
}

bool pickle_do_empty_dict(struct pickle_vm *vm)
{
    return pickle_push_constant(vm, &pv_no_dict);
}

bool pickle_do_empty_set(struct pickle_vm *vm)
{
    return pickle_push_constant(vm, &pv_no_set);
}

/* Adds `n` values to a container and puts it back on the stack. */
static bool ops_extend(struct pickle_vm *vm, struct zf_pv *to, struct zf_pv *const *from,
                       uint64_t n)
{
    if (n) {
        to = ops_own(vm, to);
        if (!to || !pickle_heap_add(&vm->heap, to, from, n, vm->err))
            return false;
    }
    return pickle_push(vm, to);
}

bool pickle_not_for(struct pickle_vm *vm, const struct zf_pv *v)
{
    return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off, "opcode %s on %s", vm->op,
                   pv_kind_names[v->kind]);
}

bool pickle_may_change(struct pickle_vm *vm, struct zf_pv *v)
{
    if (ops_can_change(v) && (v->flags & ZF_PV_PACKED))
        v->flags |= ZF_PV_LATE;
    return !(v->flags & ZF_PV_READ) ||
           zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                   "opcode %s changes %s that is part of an earlier dict", vm->op,
                   pv_kind_names[v->kind]);
}

/* Adds elements.  An object gets either elements or pairs, never both. */
static bool ops_add_elements(struct pickle_vm *vm, enum zf_pv_kind kind, struct zf_pv *const *from,
                             uint64_t n)
{
    struct zf_pv *to = vm->popped[0];
    bool call = to->kind == ZF_PV_CALL && !(to->flags & ZF_PV_MAP);

    if (to->kind != kind && !call)
        return pickle_not_for(vm, to);
    return pickle_may_change(vm, to) && ops_extend(vm, to, from, n);
}

/* Likewise for a mapping, whose keys are checked for duplicates later. */
static bool ops_extend_map(struct pickle_vm *vm, struct zf_pv *to, struct zf_pv *const *from,
                           uint64_t n)
{
    bool known = to->n > 1;

    if (!ops_extend(vm, to, from, n))
        return false;
    to = vm->stack[vm->sp - 1];
    return known || to->n < 2 || pickle_maps_add(&vm->maps, &vm->heap, to, vm->err);
}

static bool ops_add_pairs(struct pickle_vm *vm, struct zf_pv **from, uint64_t n)
{
    struct zf_pv *to = vm->popped[0];
    bool call = to->kind == ZF_PV_CALL && ((to->flags & ZF_PV_MAP) || to->n == 0), done;

    if (to->kind != ZF_PV_DICT && !call)
        return pickle_not_for(vm, to);
    if (n % 2) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode %s takes pairs of key and value, but finds %llu values", vm->op,
                       (unsigned long long)n);
    }
    if (!pickle_may_change(vm, to) || !pickle_watch_rest(vm, to, from, n, &done))
        return false;
    if (done)
        return pickle_push(vm, to);
    if (call)
        to->flags |= ZF_PV_MAP;
    return pickle_fold_values(&vm->folds, &vm->heap, from, n, vm->err) &&
           ops_extend_map(vm, to, from, n);
}

bool pickle_do_append(struct pickle_vm *vm)
{
    return ops_add_elements(vm, ZF_PV_LIST, vm->popped + 1, 1);
}

bool pickle_do_appends(struct pickle_vm *vm)
{
    return ops_add_elements(vm, ZF_PV_LIST, vm->items, vm->n_items);
}

bool pickle_do_additems(struct pickle_vm *vm)
{
    return ops_add_elements(vm, ZF_PV_SET, vm->items, vm->n_items);
}

bool pickle_do_setitem(struct pickle_vm *vm)
{
    return ops_add_pairs(vm, vm->popped + 1, 2);
}

bool pickle_do_setitems(struct pickle_vm *vm)
{
    return ops_add_pairs(vm, vm->items, vm->n_items);
}

bool pickle_do_list(struct pickle_vm *vm)
{
    return ops_extend(vm, (struct zf_pv *)&pv_no_list, vm->items, vm->n_items);
}

bool pickle_do_frozenset(struct pickle_vm *vm)
{
    return ops_extend(vm, (struct zf_pv *)&pv_no_set, vm->items, vm->n_items);
}

bool pickle_do_dict(struct pickle_vm *vm)
{
    if (vm->n_items % 2) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode DICT takes pairs of key and value, but finds %llu values",
                       (unsigned long long)vm->n_items);
    }
    return ops_extend_map(vm, (struct zf_pv *)&pv_no_dict, vm->items, vm->n_items);
}

/* ---- memo ---- */

static bool ops_memo_put(struct pickle_vm *vm, uint64_t key)
{
    struct zf_pv *v = ops_own(vm, vm->popped[0]);

    return pickle_push(vm, v) && pickle_memo_put(&vm->memo, &vm->heap, key, v, vm->err);
}

static bool ops_memo_get(struct pickle_vm *vm, uint64_t key)
{
    struct zf_pv *v = pickle_memo_get(&vm->memo, key);

    if (!v) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode %s reads memo %llu, which is not set", vm->op,
                       (unsigned long long)key);
    }
    return pickle_push(vm, pickle_again(v));
}

bool pickle_do_put(struct pickle_vm *vm)
{
    return ops_memo_put(vm, vm->arg.u);
}

bool pickle_do_memoize(struct pickle_vm *vm)
{
    return ops_memo_put(vm, vm->memo.n);
}

bool pickle_do_get(struct pickle_vm *vm)
{
    return ops_memo_get(vm, vm->arg.u);
}

/* ---- extensions ---- */

bool pickle_do_ext(struct pickle_vm *vm)
{
    if (vm->arg.i <= 0) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off, "opcode %s has the impossible code %lld",
                       vm->op, (long long)vm->arg.i);
    }
    return ops_push_ext(vm, vm->arg.i);
}
