/* SPDX-License-Identifier: Apache-2.0 */
/* Globals: their names, and whether they are called or passed to a call. */
#include "code_vm.h"

#include <stdio.h>

#include <zf/base/out.h>

/* Writes a name without NULs, because it is printed and compared as a C string. */
static void code_put_name(struct zf_out *o, struct code_text t)
{
    const uint64_t most = t.n < ZF_CODE_NAME ? t.n : ZF_CODE_NAME;

    for (uint64_t i = 0; i < most; i++)
        if (t.p[i])
            zf_out_u8(o, (uint8_t)t.p[i]);
        else
            zf_out_utf8(o, 0xfffd);
    if (t.n > most)
        zf_out_str(o, "…");
    zf_out_u8(o, 0);
}

static struct zf_code_use *code_new_use(struct code_vm *vm, const struct zf_out *key,
                                        const struct zf_code_use *as)
{
    struct zf_code_use *u = zf_vec_push(&vm->out->use, vm->err);
    char *copy = u ? malloc(key->n) : NULL;

    if (!copy) {
        vm->out->use.n -= u != NULL;
        return u ? (zf_fail_sys(vm->err, "list the globals of a pickle"), NULL) : NULL;
    }
    memcpy(copy, key->p, key->n);
    *u = *as;
    u->module = copy;
    u->name = copy + strlen(copy) + 1;
    vm->name_bytes += 2 * key->n + 200;
    return u;
}

static bool code_is_getattr(const struct zf_code_use *u)
{
    return strcmp(u->name, "getattr") == 0 &&
           (strcmp(u->module, "builtins") == 0 || strcmp(u->module, "__builtin__") == 0);
}

/* Lists a global, unless it is listed already; *word: its value. */
bool code_import(struct code_vm *vm, struct code_text module, struct code_text name, bool computed,
                 uint64_t *word)
{
    zf_auto(out) struct zf_out key = {0};
    const unsigned before = HASH_COUNT(vm->names);

    code_put_name(&key, module);
    code_put_name(&key, name);
    struct code_name *e =
        zf_out_ok(&key, vm->err) ? zf_table_make(vm->names, key.p, key.n, vm->err) : NULL;
    if (!e)
        return false;
    if (HASH_COUNT(vm->names) > before) {
        const struct zf_code_use as = {
            .at = code_off(vm), .called = ZF_OFF_NONE, .given = ZF_OFF_NONE, .computed = computed};
        struct zf_code_use *u = code_new_use(vm, &key, &as);

        if (!u)
            return false;
        u->attributes = code_is_getattr(u);
        e->use = vm->out->use.n - 1;
    }
    *word = code_word(CODE_GLOBAL, e->use);
    return true;
}

static bool code_may_be_text(uint64_t word)
{
    const enum code_kind k = code_kind(word);

    return k == CODE_TEXT || k == CODE_MADE || k == CODE_ATTRIBUTE || k == CODE_UNKNOWN ||
           k == CODE_GLOBAL;
}

bool code_stack_global(struct code_vm *vm, uint64_t module, uint64_t name, uint64_t *word)
{
    zf_auto(out) struct zf_out m = {0};
    zf_auto(out) struct zf_out n = {0};

    if (!code_may_be_text(module) || !code_may_be_text(name))
        return code_ends(vm, ZF_E_FORMAT, "the name is not text");
    const bool known = code_read_text(vm, module, &m), known2 = code_read_text(vm, name, &n);

    const struct code_text none = {"?", 1}, has = {zf_out_text(&m), m.n},
                           has2 = {zf_out_text(&n), n.n};
    return zf_out_ok(&m, vm->err) && zf_out_ok(&n, vm->err) &&
           code_import(vm, known ? has : none, known2 ? has2 : none, !known || !known2, word);
}

/* EXT: vm->n is the number of a global that some module registered with copyreg. */
bool code_extension(struct code_vm *vm, uint64_t *word)
{
    char name[40];

    if (vm->n == 0 || (vm->op->operand == CODE_ARG_I4 && vm->n > INT32_MAX))
        return code_ends(vm, ZF_E_FORMAT, "an extension's number is above zero");
    (void)snprintf(name, sizeof name, "extension %llu", (unsigned long long)vm->n);
    return code_import(vm, (struct code_text){"copyreg", strlen("copyreg")},
                       (struct code_text){name, strlen(name)}, true, word);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Notes that the value, or one of its methods, is called. */
void code_call(struct code_vm *vm, uint64_t word)
{
    const enum code_kind k = code_kind(word);

    if (k != CODE_GLOBAL && k != CODE_MADE && k != CODE_ATTRIBUTE)
        return;
    struct zf_code_use *u = &vm->out->use.at[code_n(word)];
    u->called = u->called == ZF_OFF_NONE ? code_off(vm) : u->called;
    u->attributes = false;
}

static void code_give_use(struct code_vm *vm, size_t use)
{
    struct zf_code_use *u = &vm->out->use.at[use];

    u->given = u->given == ZF_OFF_NONE ? code_off(vm) : u->given;
    u->attributes = false;
}

/* Notes that args, a global or a tuple with globals, is passed to a call. */
void code_give(struct code_vm *vm, uint64_t args)
{
    if (code_kind(args) == CODE_GLOBAL)
        code_give_use(vm, code_n(args));
    if (code_kind(args) != CODE_TUPLE)
        return;
    const struct code_tuple *t = &vm->tuple.at[code_n(args)];

    for (size_t i = 0; i < t->n; i++)
        code_give_use(vm, vm->held.at[t->first + i]);
}

/* Is the call getattr(GLOBAL, NAME), NAME being an identifier without a leading underscore? */
static bool code_is_attribute(struct code_vm *vm, uint64_t callee, uint64_t args)
{
    zf_auto(out) struct zf_out name = {0};

    if (code_kind(callee) != CODE_GLOBAL || !vm->out->use.at[code_n(callee)].attributes ||
        code_kind(args) != CODE_TUPLE || !vm->tuple.at[code_n(args)].pair ||
        !code_read_text(vm, vm->tuple.at[code_n(args)].pair, &name))
        return false;
    const char *p = zf_out_text(&name);
    bool plain = name.n > 0 && p[0] != '_';
    for (size_t i = 0; i < name.n; i++) {
        plain = plain && ((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z') ||
                          (p[i] >= '0' && p[i] <= '9') || p[i] == '_');
    }
    return plain;
}

/* Protocols below 4 write a nested class as getattr(CLASS, "NAME").  True for the one that torch's pickles contain. */
static bool code_is_nested(struct code_vm *vm, uint64_t args)
{
    const struct code_tuple *t = &vm->tuple.at[code_n(args)];
    const struct zf_code_use *in = &vm->out->use.at[vm->held.at[t->first]];
    zf_auto(out) struct zf_out name = {0};

    return code_read_text(vm, t->pair, &name) &&
           strcmp(zf_out_text(&name), "ProcessGroupState") == 0 &&
           strcmp(in->name, "ShardedTensor") == 0 &&
           strcmp(in->module, "torch.distributed._shard.sharded_tensor.api") == 0;
}

/* The value of callee(*args). */
uint64_t code_made(struct code_vm *vm, uint64_t callee, uint64_t args)
{
    const enum code_kind k = code_kind(callee);

    if (code_is_attribute(vm, callee, args)) {
        struct zf_code_use *u = &vm->out->use.at[code_n(callee)];

        u->called = u->called == ZF_OFF_NONE ? code_off(vm) : u->called;
        return code_is_nested(vm, args) ? code_word(CODE_UNKNOWN, 0)
                                        : code_word(CODE_ATTRIBUTE, code_n(callee));
    }
    code_call(vm, callee);
    code_give(vm, args);
    return k == CODE_GLOBAL || k == CODE_MADE || k == CODE_ATTRIBUTE
               ? code_word(CODE_MADE, code_n(callee))
               : code_word(CODE_UNKNOWN, 0);
}

/* ---- tuples ---------------------------------------------------------------------------------- */

bool code_tuple(struct code_vm *vm, const uint64_t *at, uint64_t n, uint64_t *word)
{
    const size_t first = vm->held.n;

    *word = code_word(CODE_PLAIN, 0);
    for (uint64_t i = 0; i < n; i++) {
        if (code_kind(at[i]) == CODE_GLOBAL) {
            uint32_t *to = zf_vec_push(&vm->held, vm->err);

            if (!to)
                return false;
            *to = (uint32_t)code_n(at[i]);
        }
    }
    struct code_tuple *t = vm->held.n > first ? zf_vec_push(&vm->tuple, vm->err) : NULL;
    if (!t)
        return vm->held.n == first;
    *t = (struct code_tuple){.first = first, .n = vm->held.n - first};
    t->pair =
        n == 2 && code_kind(at[0]) == CODE_GLOBAL && code_kind(at[1]) == CODE_TEXT ? at[1] : 0;
    *word = code_word(CODE_TUPLE, vm->tuple.n - 1);
    return true;
}
