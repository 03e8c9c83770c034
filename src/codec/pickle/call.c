/* SPDX-License-Identifier: Apache-2.0 */
/* The opcodes for globals and calls: a global is two strings; a call is a record of a callee and its
 * arguments, and is never executed.  Two calls that only make a container are turned into that
 * container, so that the readers of values need not know how an old Python pickled it. */
#include <string.h>

#include "text.h"
#include "vm.h"

static struct zf_pv *call_global_of(struct pickle_vm *vm, struct zf_pv *module, struct zf_pv *name)
{
    if (!module || !name)
        return NULL;
    if (module->kind != ZF_PV_STR || name->kind != ZF_PV_STR ||
        ((module->flags | name->flags) & ZF_PV_HAS_NUL)) {
        return zf_null(zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                               "opcode %s lacks a module and name that are text", vm->op));
    }
    const char *now = pv_module_now(pv_chars(module));
    if (now != pv_chars(module))
        module = pickle_heap_text(&vm->heap, ZF_PV_STR, now, strlen(now), vm->err);
    struct zf_pv *v = vm->heap.last_global;
    if (v && v->at[0].v == module && v->at[1].v == name)
        return v;
    v = module ? pickle_heap_new(&vm->heap, ZF_PV_GLOBAL, 2, vm->err) : NULL;
    if (!v)
        return NULL;
    vm->heap.last_global = v;
    v->at[0].v = module;
    v->at[1].v = name;
    if (strcmp(pv_chars(module), "collections") == 0 && strcmp(pv_chars(name), "OrderedDict") == 0)
        v->flags |= ZF_PV_ORDERED;
    return v;
}

bool pickle_do_global(struct pickle_vm *vm)
{
    struct zf_pv *module =
        pickle_told(vm, pickle_text_str(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
    struct zf_pv *name =
        module ? pickle_told(vm, pickle_text_str(&vm->heap, vm->arg.p2, vm->arg.n2, vm->err))
               : NULL;

    return pickle_push(vm, call_global_of(vm, module, name));
}

bool pickle_do_stack_global(struct pickle_vm *vm)
{
    return pickle_push(vm, call_global_of(vm, vm->popped[0], vm->popped[1]));
}

static struct zf_pv *call_of(struct pickle_vm *vm, const struct zf_pv *callee,
                             const struct zf_pv *args)
{
    if (!args)
        return NULL;
    struct zf_pv *v = pickle_heap_new(&vm->heap, ZF_PV_CALL, 2, vm->err);
    if (!v || !pickle_heap_holds(&vm->heap, v, callee, vm->err) ||
        !pickle_heap_holds(&vm->heap, v, args, vm->err))
        return NULL;
    v->at[0].v = callee;
    v->at[1].v = args;
    return v;
}

/* Value k of a LIST or TUPLE, which must have it. */
static struct zf_pv *call_value_at(const struct zf_pv *v, uint32_t k)
{
    return (struct zf_pv *)(v->kind == ZF_PV_TUPLE ? v->at[k].v : v->at[0].items->at[k].v);
}

static bool call_is_sequence(const struct zf_pv *v)
{
    return v->kind == ZF_PV_LIST || v->kind == ZF_PV_TUPLE;
}

/* The only argument of OrderedDict if it is a list of pairs, as pickled by Python 2 (Python 3 sets
 * the items afterwards): Lib/collections.py of 2.7, OrderedDict.__reduce__. */
static const struct zf_pv *call_pairs_of(const struct zf_pv *args)
{
    const struct zf_pv *list = args->kind == ZF_PV_TUPLE && args->n == 1 ? args->at[0].v : NULL;

    if (!list || !call_is_sequence(list))
        return NULL;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct zf_pv *pair = call_value_at(list, i);

        if (!call_is_sequence(pair) || pair->n != 2)
            return NULL;
    }
    return list;
}

/* Turns OrderedDict([(key, value), …]) into OrderedDict() followed by its items. */
static bool call_push_ordered(struct pickle_vm *vm, struct zf_pv *class, const struct zf_pv *list)
{
    struct zf_pv *v = call_of(vm, class, &pv_no_tuple);

    if (!v)
        return false;
    v->flags |= ZF_PV_MAP;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct zf_pv *pair = call_value_at(list, i);
        struct zf_pv *item[2] = {pickle_again(call_value_at(pair, 0)),
                                 pickle_again(call_value_at(pair, 1))};

        if (!pickle_heap_add(&vm->heap, v, item, 2, vm->err))
            return false;
    }
    return (v->n < 2 || pickle_maps_add(&vm->maps, &vm->heap, v, vm->err)) && pickle_push(vm, v);
}

bool pickle_do_reduce(struct pickle_vm *vm)
{
    struct zf_pv *callee = vm->popped[0], *args = vm->popped[1];

    /* Arguments in a namedtuple are a CALL. */
    if (args->kind != ZF_PV_TUPLE && args->kind != ZF_PV_CALL) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode %s takes a tuple of arguments, found %s", vm->op,
                       pv_kind_names[args->kind]);
    }
    const struct zf_pv *pairs = (callee->flags & ZF_PV_ORDERED) && callee->kind == ZF_PV_GLOBAL
                                    ? call_pairs_of(args)
                                    : NULL;
    if (pairs)
        return call_push_ordered(vm, callee, pairs);
    return pickle_push(vm, call_of(vm, callee, args));
}

bool pickle_do_newobj_ex(struct pickle_vm *vm)
{
    struct zf_pv *args = vm->popped[1], *kwargs = vm->popped[2];

    if (args->kind != ZF_PV_TUPLE || kwargs->kind != ZF_PV_DICT) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode NEWOBJ_EX takes a tuple and a dict of arguments, found %s and %s",
                       pv_kind_names[args->kind], pv_kind_names[kwargs->kind]);
    }
    struct zf_pv *v = call_of(vm, vm->popped[0], args);
    struct pv_more *more = v ? pickle_heap_more(&vm->heap, v, vm->err) : NULL;
    if (!more || !pickle_heap_holds(&vm->heap, v, kwargs, vm->err))
        return false;
    more->kwargs = kwargs;
    return pickle_push(vm, v);
}

bool pickle_do_obj(struct pickle_vm *vm)
{
    if (vm->n_items == 0) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode OBJ finds no class above the mark");
    }
    return pickle_push(vm,
                       call_of(vm, vm->items[0], pickle_tuple(vm, vm->items + 1, vm->n_items - 1)));
}

/* Attaches the state; a second one replaces the first.  A global, a persistent id or an extension may
 * be any object in Python, but is only a name here: its state is dropped. */
bool pickle_do_build(struct pickle_vm *vm)
{
    struct zf_pv *v = vm->popped[0], *state = vm->popped[1];

    if (v->kind == ZF_PV_GLOBAL || v->kind == ZF_PV_PERSID || v->kind == ZF_PV_EXT)
        return pickle_push(vm, v);
    if (v->kind != ZF_PV_CALL)
        return pickle_not_for(vm, v);
    struct pv_more *more =
        pickle_may_change(vm, v) ? pickle_heap_more(&vm->heap, v, vm->err) : NULL;
    if (!more || !pickle_heap_holds(&vm->heap, v, state, vm->err))
        return false;
    more->state = state;
    return pickle_push(vm, v);
}

bool pickle_do_persid(struct pickle_vm *vm)
{
    struct zf_pv *id = vm->popped[0];
    struct zf_pv *v = pickle_heap_new(&vm->heap, ZF_PV_PERSID, 2, vm->err);

    if (!v || !pickle_heap_holds(&vm->heap, v, id, vm->err))
        return false;
    v->at[0].v = id;
    if (vm->folds.wanted)
        return pickle_push(vm, v);
    if (vm->last_pid)
        vm->last_pid->at[1].v = v;
    else
        vm->first_pid = v;
    vm->last_pid = v;
    return pickle_push(vm, v);
}
