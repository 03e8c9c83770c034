/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the opcodes one by one.  The stack is checked as in Python. */
#include "code_vm.h"

#include <zf/base/out.h>

static const struct code_op ops[256] = {
#define OP(code, name, operand, pops, to_mark, pushes, protocol, handler)                          \
    [code] = {#name, CODE_ARG_##operand, pops, to_mark, pushes},
#include "opcodes.def"
#undef OP
};

/* Ends the walk where Python would raise an exception.  Returns false and leaves vm->err alone. */
bool code_ends(struct code_vm *vm, enum zf_code code, const char *why)
{
    return zf_fail(&vm->out->why, code, vm->in.base + vm->op_at, "opcode %s: %s",
                   vm->op && vm->op->name ? vm->op->name : "?", why);
}

static bool code_cut(struct code_vm *vm)
{
    vm->out->cut = true;
    return code_ends(vm, ZF_E_FORMAT, "the pickle ends here");
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Reads a line.  If the input ends without '\n', the line lacks its last byte, as in Python, which always cuts one
 * off. */
static const char *code_line(struct code_vm *vm, uint64_t *n)
{
    struct zf_bytes *in = &vm->in;
    const char *p = (const char *)in->p + in->at;
    const uint64_t left = in->n - in->at;
    const char *end = left ? memchr(p, '\n', left) : NULL;

    *n = end ? (uint64_t)(end - p) : left ? left - 1 : 0;
    in->at += end ? *n + 1 : left;
    vm->out->cut = vm->out->cut || !end;
    return left ? p : "";
}

static bool code_blob(struct code_vm *vm, uint64_t n)
{
    vm->n = n;
    vm->text = zf_bytes_take(&vm->in, n);
    return !vm->in.bad || code_cut(vm);
}

bool code_read_operand(struct code_vm *vm, enum code_operand kind)
{
    struct zf_bytes *in = &vm->in;

    switch (kind) {
    case CODE_ARG_NONE:
        return true;
    case CODE_ARG_U1:
        vm->n = zf_bytes_u8(in);
        break;
    case CODE_ARG_U2:
        vm->n = zf_bytes_le16(in);
        break;
    case CODE_ARG_I4:
    case CODE_ARG_U4:
        vm->n = zf_bytes_le32(in);
        break;
    case CODE_ARG_U8:
    case CODE_ARG_F8:
        vm->n = zf_bytes_le64(in);
        break;
    case CODE_ARG_BYTES1:
        return code_blob(vm, zf_bytes_u8(in));
    case CODE_ARG_BYTES4:
        return code_blob(vm, zf_bytes_le32(in));
    case CODE_ARG_BYTES4S:
        vm->n = zf_bytes_le32(in);
        return vm->n <= INT32_MAX ? code_blob(vm, vm->n)
                                  : code_ends(vm, ZF_E_FORMAT, "its length is negative");
    case CODE_ARG_BYTES8:
        return code_blob(vm, zf_bytes_le64(in));
    case CODE_ARG_LINE:
        vm->text = code_line(vm, &vm->n);
        break;
    case CODE_ARG_LINES:
        vm->text = code_line(vm, &vm->n);
        vm->text2 = code_line(vm, &vm->n2);
        break;
    }
    return !in->bad || code_cut(vm);
}

/* Appends the text of a value to *out; false: it is not known. */
bool code_read_text(struct code_vm *vm, uint64_t word, struct zf_out *out)
{
    struct zf_code_walk none = {0};
    struct code_vm at = {.in = vm->in, .out = &none};

    if (code_kind(word) != CODE_TEXT)
        return false;
    at.in.at = code_n(word);
    const uint8_t code = zf_bytes_u8(&at.in);
    if (!code_read_operand(&at, (enum code_operand)ops[code].operand))
        return false;
    if (code != 'S' && code != 'V') {
        zf_out_add(out, at.text, at.n < ZF_CODE_NAME ? at.n : ZF_CODE_NAME + 1);
        return true;
    }
    vm->looked += at.n;
    if (code == 'S')
        return code_text_unquote(at.text, at.n, out);
    return code_text_unescape(at.text, at.n, out);
}

/* ---- opcodes --------------------------------------------------------------------------------- */

static bool code_push(struct code_vm *vm, uint64_t word)
{
    uint64_t *to = zf_vec_push(&vm->stack, vm->err);

    if (to)
        *to = word;
    return to != NULL;
}

/* The n values above a mark: a class, called with the others. */
static bool code_object(struct code_vm *vm, const uint64_t *at, uint64_t n, uint64_t *word)
{
    if (n == 0)
        return code_ends(vm, ZF_E_FORMAT, "there is no class after the mark");
    *word = code_made(vm, at[0], 0);
    for (uint64_t i = 1; i < n; i++)
        code_give(vm, at[i]);
    return true;
}

static bool code_memo(struct code_vm *vm, const uint64_t *at, uint64_t *word)
{
    switch (vm->code) {
    case 'p':
    case 'g':
        return code_memo_text(vm, vm->code == 'p' ? at[0] : 0, vm->code == 'p', word);
    case 'h':
    case 'j':
        return code_memo_get(vm, vm->n, word);
    default: /* q, r, MEMOIZE */
        *word = at[0];
        return code_memo_put(vm, vm->code == 0x94 ? vm->n_memo : vm->n, at[0]);
    }
}

/* Carries out an opcode.  at[pops]: the values that it takes, followed by its n items above a mark. */
static bool code_act(struct code_vm *vm, const uint64_t *at, uint64_t n, uint64_t *word)
{
    switch (vm->code) {
    case 'c':
        return code_import(vm, (struct code_text){vm->text, vm->n},
                           (struct code_text){vm->text2, vm->n2}, false, word);
    case 0x93: /* STACK_GLOBAL */
        return code_stack_global(vm, at[0], at[1], word);
    case 0x82: /* EXT1, EXT2, EXT4 */
    case 0x83:
    case 0x84:
        return code_extension(vm, word);
    case 'R':
    case 0x81: /* NEWOBJ */
    case 0x92: /* NEWOBJ_EX */
        *word = code_made(vm, at[0], at[1]);
        return true;
    case 'b':
    case 'a':
    case 'e':
    case 's':
    case 'u':
    case 0x90: /* ADDITEMS */
        code_call(vm, at[0]);
        *word = at[0];
        return true;
    case 'o':
        return code_object(vm, at, n, word);
    case 'S':
    case 'T':
    case 'U':
    case 'V':
    case 'X':
    case 0x8c: /* SHORT_BINUNICODE */
    case 0x8d: /* BINUNICODE8 */
        *word = code_word(CODE_TEXT, vm->op_at);
        return true;
    case 't':
    case 0x85: /* TUPLE1, TUPLE2, TUPLE3 */
    case 0x86:
    case 0x87:
        return code_tuple(vm, at, vm->op->to_mark ? n : vm->op->pops, word);
    case 'P':
    case 'Q':
    case 0x97: /* NEXT_BUFFER */
    case 0x98: /* READONLY_BUFFER */
        *word = code_word(CODE_UNKNOWN, 0);
        return true;
    case 'p':
    case 'g':
    case 'q':
    case 'r':
    case 'h':
    case 'j':
    case 0x94: /* MEMOIZE */
        return code_memo(vm, at, word);
    case '2':
        *word = at[0];
        return true;
    case 0x80: /* PROTO */
        return vm->n <= 5 || code_ends(vm, ZF_E_FORMAT, "there is no such protocol");
    default:
        return true;
    }
}

/* INST: a class named by two lines, called with the values above the mark; it is imported before the mark is
 * searched. */
static bool code_inst(struct code_vm *vm, uint64_t *word)
{
    if (!code_import(vm, (struct code_text){vm->text, vm->n}, (struct code_text){vm->text2, vm->n2},
                     false, word))
        return false;
    if (vm->mark.n > 0) {
        for (size_t i = vm->mark.at[vm->mark.n - 1]; i < vm->stack.n; i++)
            code_give(vm, vm->stack.at[i]);
        *word = code_made(vm, *word, 0);
    }
    return true;
}

static bool code_mark(struct code_vm *vm)
{
    size_t *to = zf_vec_push(&vm->mark, vm->err);

    if (to)
        *to = vm->stack.n;
    return to != NULL;
}

/* Pops a value, or the mark if no value is above it. */
static bool code_pop(struct code_vm *vm)
{
    const size_t fence = vm->mark.n ? vm->mark.at[vm->mark.n - 1] : 0;

    if (vm->stack.n > fence) {
        vm->stack.n--;
        return true;
    }
    if (vm->mark.n == 0)
        return code_ends(vm, ZF_E_FORMAT, "the stack is empty");
    vm->mark.n--;
    return true;
}

static bool code_take(struct code_vm *vm)
{
    uint64_t word = code_word(CODE_PLAIN, 0), n = 0;

    if (vm->code == '(')
        return code_mark(vm);
    if (vm->code == '0')
        return code_pop(vm);
    if (vm->code == 'i' && !code_inst(vm, &word))
        return false;
    if (vm->op->to_mark) {
        if (vm->mark.n == 0)
            return code_ends(vm, ZF_E_FORMAT, "there is no mark on the stack");
        n = vm->stack.n - vm->mark.at[--vm->mark.n];
    }
    const size_t fence = vm->mark.n ? vm->mark.at[vm->mark.n - 1] : 0,
                 have = vm->stack.n - n - fence;
    if (have < vm->op->pops)
        return code_ends(vm, ZF_E_FORMAT, "there is too little on the stack");
    const size_t base = vm->stack.n - n - vm->op->pops;
    /* popped values stay in memory until something is pushed */
    if (!code_act(vm, vm->stack.at + base, n, &word))
        return false;
    vm->stack.n = base;
    vm->stop = vm->code == '.';
    return (vm->op->pushes < 1 || code_push(vm, word)) &&
           (vm->op->pushes < 2 || code_push(vm, word));
}

static bool code_step(struct code_vm *vm)
{
    vm->op_at = vm->in.at;
    vm->op = NULL;
    if (zf_bytes_left(&vm->in) == 0)
        return code_cut(vm);
    vm->code = zf_bytes_u8(&vm->in);
    vm->op = &ops[vm->code];
    vm->text = vm->text2 = "";
    vm->n = vm->n2 = 0;
    if (!vm->op->name)
        return code_ends(vm, ZF_E_FORMAT, "there is no such opcode");
    const uint64_t used = 8 * (vm->stack.cap + vm->mark.cap + vm->memo.cap) + 4 * vm->held.cap +
                          sizeof(struct code_tuple) * vm->tuple.cap +
                          128 * (uint64_t)HASH_COUNT(vm->far) + vm->name_bytes;
    if (used > vm->lim->pickle_memory) {
        (void)code_ends(vm, ZF_E_LIMIT, "the limit pickle_memory is reached");
        vm->out->why.limit = ZF_LIMIT_pickle_memory;
        return false;
    }
    /* a hostile pickle may use one long line as the name of every global */
    if (vm->looked > 64 * vm->in.n + (1u << 20))
        return code_ends(vm, ZF_E_LIMIT, "names are looked up in texts that are too long");
    return code_read_operand(vm, (enum code_operand)vm->op->operand) && code_take(vm);
}

void zf_code_walk_fini(struct zf_code_walk *w)
{
    for (size_t i = 0; i < w->use.n; i++)
        free(w->use.at[i].module);
    zf_vec_fini(&w->use);
}

bool zf_code_walk(const struct zf_bytes *in, const struct zf_limits *lim, struct zf_code_walk *out,
                  struct zf_err *err)
{
    struct code_vm vm = {.in = *in, .lim = lim, .out = out, .err = err};

    *out = (struct zf_code_walk){0};
    zf_err_clear(&out->why);
    while (!vm.stop && code_step(&vm)) {
    }
    out->end = zf_bytes_off(&vm.in);
    out->cut = out->cut && !vm.stop;
    const bool ok = vm.stop || out->why.code != ZF_OK;
    zf_vec_fini(&vm.stack);
    zf_vec_fini(&vm.mark);
    zf_vec_fini(&vm.memo);
    zf_vec_fini(&vm.tuple);
    zf_vec_fini(&vm.held);
    zf_table_free(vm.far);
    zf_table_free(vm.names);
    if (!ok)
        zf_code_walk_fini(out);
    return ok;
}
