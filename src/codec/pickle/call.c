/* SPDX-License-Identifier: Apache-2.0 */
/* The opcodes that name things and call them: a global is two texts, a call the description of a
 * callee and its arguments, which nothing carries out.  Two calls that only make a container are
 * put as that container, so that nobody has to know how an old Python spelt it. */
#include <string.h>

#include "text.h"
#include "vm.h"

static struct zf_pv *global_of(struct zf_pickle_vm *vm, struct zf_pv *module, struct zf_pv *name)
{
    if (!module || !name) {
        return NULL;
    }
    if (module->kind != ZF_PV_STR || name->kind != ZF_PV_STR ||
        ((module->flags | name->flags) & ZF_PV_HAS_NUL)) {
        (void)zf_fail(vm->err, ZF_E_FORMAT, vm->op_off, "opcode %s has no module and name as text",
                      vm->op);
        return NULL;
    }
    const char *now = zf_pv_module_now(zf_pv_chars(module));
    if (now != zf_pv_chars(module)) {
        module = zf_pickle_heap_text(&vm->heap, ZF_PV_STR, now, strlen(now), vm->err);
    }
    struct zf_pv *v = vm->heap.last_global;
    if (v && v->at[0].v == module && v->at[1].v == name) {
        return v;
    }
    v = module ? zf_pickle_heap_new(&vm->heap, ZF_PV_GLOBAL, 2, vm->err) : NULL;
    if (!v) {
        return NULL;
    }
    vm->heap.last_global = v;
    v->at[0].v = module;
    v->at[1].v = name;
    if (strcmp(zf_pv_chars(module), "copyreg") == 0 &&
        strcmp(zf_pv_chars(name), "_reconstructor") == 0) {
        v->flags |= ZF_PV_REMAKER;
    } else if (strcmp(zf_pv_chars(module), "collections") == 0 &&
               strcmp(zf_pv_chars(name), "OrderedDict") == 0) {
        v->flags |= ZF_PV_ORDERED;
    }
    return v;
}

static struct zf_pv *global_of_lines(struct zf_pickle_vm *vm)
{
    struct zf_pv *module =
        zf_pickle_told(vm, zf_pickle_text_str(&vm->heap, vm->arg.p, vm->arg.n, vm->err));
    struct zf_pv *name =
        module ? zf_pickle_told(vm, zf_pickle_text_str(&vm->heap, vm->arg.p2, vm->arg.n2, vm->err))
               : NULL;

    return global_of(vm, module, name);
}

bool zf_pickle_do_global(struct zf_pickle_vm *vm)
{
    return zf_pickle_push(vm, global_of_lines(vm));
}

bool zf_pickle_do_stack_global(struct zf_pickle_vm *vm)
{
    return zf_pickle_push(vm, global_of(vm, vm->popped[0], vm->popped[1]));
}

static struct zf_pv *call_of(struct zf_pickle_vm *vm, const struct zf_pv *callee,
                             const struct zf_pv *args)
{
    if (!args) {
        return NULL;
    }
    struct zf_pv *v = zf_pickle_heap_new(&vm->heap, ZF_PV_CALL, 2, vm->err);
    if (!v || !zf_pickle_heap_holds(&vm->heap, v, callee, vm->err) ||
        !zf_pickle_heap_holds(&vm->heap, v, args, vm->err)) {
        return NULL;
    }
    v->at[0].v = callee;
    v->at[1].v = args;
    return v;
}

/* copyreg._reconstructor(class, base, state) is how protocols 0 and 1 say NEWOBJ: an object of the
 * class, whose content, if the base is not plain `object`, is the only argument. */
static bool push_remade(struct zf_pickle_vm *vm, struct zf_pv *args)
{
    bool plain = args->at[2].v->kind == ZF_PV_NONE;
    struct zf_pv *state = zf_pickle_again((struct zf_pv *)args->at[2].v);

    return zf_pickle_push(vm,
                          call_of(vm, args->at[0].v, zf_pickle_tuple(vm, &state, plain ? 0 : 1)));
}

/* The value k of a LIST or TUPLE that has one. */
static struct zf_pv *value_at(const struct zf_pv *v, uint32_t k)
{
    return (struct zf_pv *)(v->kind == ZF_PV_TUPLE ? v->at[k].v : v->at[0].items->at[k].v);
}

static bool is_sequence(const struct zf_pv *v)
{
    return v->kind == ZF_PV_LIST || v->kind == ZF_PV_TUPLE;
}

/* The only argument of OrderedDict when that is a list of pairs, as Python 2 pickled it (Python 3
 * sets the items afterwards): Lib/collections.py of 2.7, OrderedDict.__reduce__. */
static const struct zf_pv *pairs_of(const struct zf_pv *args)
{
    const struct zf_pv *list = args->kind == ZF_PV_TUPLE && args->n == 1 ? args->at[0].v : NULL;

    if (!list || !is_sequence(list)) {
        return NULL;
    }
    for (uint32_t i = 0; i < list->n; i++) {
        const struct zf_pv *pair = value_at(list, i);

        if (!is_sequence(pair) || pair->n != 2) {
            return NULL;
        }
    }
    return list;
}

/* OrderedDict([(key, value), …]) as OrderedDict() that was given the items. */
static bool push_ordered(struct zf_pickle_vm *vm, struct zf_pv *class, const struct zf_pv *list)
{
    struct zf_pv *v = call_of(vm, class, &zf_pv_no_tuple);

    if (!v) {
        return false;
    }
    v->flags |= ZF_PV_MAP;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct zf_pv *pair = value_at(list, i);
        struct zf_pv *item[2] = {value_at(pair, 0), zf_pickle_again(value_at(pair, 1))};

        if (!zf_pickle_heap_add(&vm->heap, v, item, 2, vm->err)) {
            return false;
        }
    }
    return (v->n < 2 || zf_pickle_maps_add(&vm->maps, &vm->heap, v, vm->err)) &&
           zf_pickle_push(vm, v);
}

bool zf_pickle_do_reduce(struct zf_pickle_vm *vm)
{
    struct zf_pv *callee = vm->popped[0], *args = vm->popped[1];

    /* A namedtuple of arguments is a CALL. */
    if (args->kind != ZF_PV_TUPLE && args->kind != ZF_PV_CALL) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode %s takes a tuple of arguments, found %s", vm->op,
                       zf_pv_kind_names[args->kind]);
    }
    if ((callee->flags & ZF_PV_REMAKER) && callee->kind == ZF_PV_GLOBAL &&
        args->kind == ZF_PV_TUPLE && args->n == 3) {
        return push_remade(vm, args);
    }
    const struct zf_pv *pairs =
        (callee->flags & ZF_PV_ORDERED) && callee->kind == ZF_PV_GLOBAL ? pairs_of(args) : NULL;
    if (pairs) {
        return push_ordered(vm, callee, pairs);
    }
    return zf_pickle_push(vm, call_of(vm, callee, args));
}

bool zf_pickle_do_newobj_ex(struct zf_pickle_vm *vm)
{
    struct zf_pv *args = vm->popped[1], *kwargs = vm->popped[2];

    if (args->kind != ZF_PV_TUPLE || kwargs->kind != ZF_PV_DICT) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode NEWOBJ_EX takes a tuple and a dict of arguments, found %s and %s",
                       zf_pv_kind_names[args->kind], zf_pv_kind_names[kwargs->kind]);
    }
    struct zf_pv *v = call_of(vm, vm->popped[0], args);
    struct zf_pv_more *more = v ? zf_pickle_heap_more(&vm->heap, v, vm->err) : NULL;
    if (!more || !zf_pickle_heap_holds(&vm->heap, v, kwargs, vm->err)) {
        return false;
    }
    more->kwargs = kwargs;
    return zf_pickle_push(vm, v);
}

bool zf_pickle_do_inst(struct zf_pickle_vm *vm)
{
    struct zf_pv *class = global_of_lines(vm);

    return class &&
           zf_pickle_push(vm, call_of(vm, class, zf_pickle_tuple(vm, vm->items, vm->n_items)));
}

bool zf_pickle_do_obj(struct zf_pickle_vm *vm)
{
    if (vm->n_items == 0) {
        return zf_fail(vm->err, ZF_E_FORMAT, vm->op_off,
                       "opcode OBJ finds no class above the mark");
    }
    return zf_pickle_push(
        vm, call_of(vm, vm->items[0], zf_pickle_tuple(vm, vm->items + 1, vm->n_items - 1)));
}

/* Attaches the state; of two, the last counts.  A global, a persistent id and an extension may be
 * any object to Python, but here they are names: their state is dropped. */
bool zf_pickle_do_build(struct zf_pickle_vm *vm)
{
    struct zf_pv *v = vm->popped[0], *state = vm->popped[1];

    if (v->kind == ZF_PV_GLOBAL || v->kind == ZF_PV_PERSID || v->kind == ZF_PV_EXT) {
        return zf_pickle_push(vm, v);
    }
    if (v->kind != ZF_PV_CALL) {
        return zf_pickle_not_for(vm, v);
    }
    struct zf_pv_more *more = zf_pickle_heap_more(&vm->heap, v, vm->err);
    if (!more || !zf_pickle_heap_holds(&vm->heap, v, state, vm->err)) {
        return false;
    }
    more->state = state;
    return zf_pickle_push(vm, v);
}

static bool push_persid(struct zf_pickle_vm *vm, struct zf_pv *id)
{
    struct zf_pv *v = id ? zf_pickle_heap_new(&vm->heap, ZF_PV_PERSID, 2, vm->err) : NULL;

    if (!v || !zf_pickle_heap_holds(&vm->heap, v, id, vm->err)) {
        return false;
    }
    v->at[0].v = id;
    if (vm->last_pid) {
        vm->last_pid->at[1].v = v;
    } else {
        vm->first_pid = v;
    }
    vm->last_pid = v;
    return zf_pickle_push(vm, v);
}

bool zf_pickle_do_persid_text(struct zf_pickle_vm *vm)
{
    return push_persid(
        vm, zf_pickle_told(vm, zf_pickle_text_str(&vm->heap, vm->arg.p, vm->arg.n, vm->err)));
}

bool zf_pickle_do_persid(struct zf_pickle_vm *vm)
{
    return push_persid(vm, vm->popped[0]);
}
