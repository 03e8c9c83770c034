/* SPDX-License-Identifier: Apache-2.0 */
/* A pickler writes a mapping that is an attribute of an object as: the object, its state's dict, a
 * mark, the attribute's name, an empty dict, a mark, a thousand keys and values, SETITEMS, a mark, a
 * thousand …  So a mark above [object, dict, mark, …, name, dict] begins pairs of such an attribute.
 * A pair is complete when the next key is pushed; then it is passed on and freed.  Completeness is a
 * guess, because a value might still become the operand of another opcode; after a wrong guess that
 * opcode lacks its operands, so the pickle is refused, never misread.
 * Source: CPython Lib/pickle.py, save_reduce and _batch_setitems (3.8 … 3.14). */
#include "vm.h"

#include <sys/mman.h>
#include <unistd.h>

#define GIVE_BACK (4u << 20)

static bool watch_over(const struct pickle_vm *vm, struct zf_pv **name_out)
{
    struct zf_pv *const *s = vm->stack;
    uint64_t sp = vm->sp;

    if (vm->n_marks != 2 || vm->mark[0] != 2 || sp < 4 || (sp - 2) % 2 != 0)
        return false;
    *name_out = s[sp - 2];
    return s[0]->kind == ZF_PV_CALL && s[1]->kind == ZF_PV_DICT && s[1]->n == 0 &&
           s[sp - 1]->kind == ZF_PV_DICT && !(s[sp - 1]->flags & ZF_PV_SHARED) &&
           (*name_out)->kind == ZF_PV_STR;
}

bool pickle_watch_mark(struct pickle_vm *vm)
{
    struct pickle_watch *w = &vm->watch;
    struct zf_pv *name;

    if (!watch_over(vm, &name))
        return true;
    struct zf_pv *map = vm->stack[vm->sp - 1];
    bool wants = false;
    if (!w->with->wants(w->with->ctx, pv_chars(name), map, &wants, vm->err))
        return false;
    if (wants) {
        w->map = map;
        w->base = vm->sp;
        w->next = vm->sp + 3;
        w->taken = false;
    }
    return true;
}

/* Gives back the memory of the pickle's bytes that were read, if the caller allows it. */
static void watch_give_back(struct pickle_vm *vm)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = vm->watch.given_back;

    if (!vm->watch.with->spends || vm->op_off - vm->in.base < from + GIVE_BACK)
        return;
    uintptr_t lo = ((uintptr_t)vm->in.p + from + page - 1) / page * page,
              hi = ((uintptr_t)vm->in.p + (vm->op_off - vm->in.base)) / page * page;
    (void)madvise((void *)lo, hi - lo, MADV_DONTNEED);
    vm->watch.given_back = vm->op_off - vm->in.base;
}

static bool watch_hand_over(struct pickle_vm *vm, struct zf_pv *const *from, uint64_t n)
{
    const struct zf_pickle_watch *with = vm->watch.with;
    struct zf_pv *map = vm->watch.map;

    if (!pickle_maps_check(&vm->maps, vm->in.at - vm->heap.start, vm->err))
        return false;
    for (uint64_t i = 0; i < n; i += 2)
        if (!pickle_heap_holds(&vm->heap, map, from[i], vm->err) ||
            !pickle_heap_holds(&vm->heap, map, from[i + 1], vm->err) ||
            !with->pair(with->ctx, map, from[i], from[i + 1], vm->err))
            return false;
    for (uint64_t i = 0; i < n; i++)
        if (!pickle_heap_spend(&vm->heap, from[i], vm->err))
            return false;
    pickle_maps_sweep(&vm->maps);
    vm->watch.taken = vm->watch.taken || n > 0;
    watch_give_back(vm);
    return true;
}

/* Passes pairs on if the value is a CALL with a state, followed by the next key: a text, or the class of an object. */
bool pickle_watch_step(struct pickle_vm *vm)
{
    struct pickle_watch *w = &vm->watch;
    struct zf_pv **s = vm->stack;
    uint64_t n = w->next - 1 - w->base;

    if (vm->n_marks != 2)
        return true;
    const struct zf_pv *val = s[w->next - 2], *next = s[w->next - 1];
    if (val->kind != ZF_PV_CALL || (next->kind != ZF_PV_STR && next->kind != ZF_PV_GLOBAL))
        return true;
    if (!zf_pv_state(val)) {
        w->next += 2; /* not certain: try again with the next pair */
        return true;
    }
    if (!watch_hand_over(vm, s + w->base, n))
        return false;
    vm->stack[w->base] = vm->stack[w->next - 1];
    vm->sp = w->base + 1;
    w->next = w->base + 3;
    return true;
}

bool pickle_watch_end(struct pickle_vm *vm, bool sets_pairs)
{
    vm->watch.next = ZF_WATCH_NEVER;
    if (sets_pairs)
        return true; /* pickle_watch_rest passes on the rest */
    vm->watch.map = NULL;
    return !vm->watch.taken ||
           zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                   "opcode %s takes keys and values that already belong to a dict", vm->op);
}

bool pickle_watch_rest(struct pickle_vm *vm, struct zf_pv *to, struct zf_pv *const *from,
                       uint64_t n, bool *done)
{
    *done = vm->watch.map && vm->n_marks == 1 && vm->watch.map == to &&
            from == vm->stack + vm->watch.base;
    if (!*done)
        return true;
    bool ok = watch_hand_over(vm, from, n);
    vm->watch.map = NULL;
    return ok;
}
