/* SPDX-License-Identifier: Apache-2.0 */
/* The machine behind zf/codec/pickle_code.h: it keeps of each value only what decides about imports and calls, a word. */
#ifndef CODEC_PICKLE_CODE_VM_H
#define CODEC_PICKLE_CODE_VM_H

#include <zf/base/table.h>
#include <zf/codec/pickle_code.h>

/* The argument of an opcode, as load.c has it. */
enum code_operand {
    CODE_ARG_NONE,
    CODE_ARG_U1,
    CODE_ARG_U2,
    CODE_ARG_I4,
    CODE_ARG_U4,
    CODE_ARG_U8,
    CODE_ARG_F8,
    CODE_ARG_BYTES1,
    CODE_ARG_BYTES4,
    CODE_ARG_BYTES4S,
    CODE_ARG_BYTES8,
    CODE_ARG_LINE,
    CODE_ARG_LINES,
};

struct code_op {
    const char *name; /* NULL: no such opcode */
    uint8_t operand, pops, to_mark, pushes;
};

enum code_kind {
    CODE_ABSENT,    /* of the memo: nothing was put there */
    CODE_PLAIN,     /* neither text nor anything that can be called */
    CODE_TEXT,      /* … of the opcode at offset n */
    CODE_GLOBAL,    /* use n itself */
    CODE_MADE,      /* by calling use n */
    CODE_ATTRIBUTE, /* got by use n, which is getattr */
    CODE_TUPLE,     /* tuple n, which holds globals */
    CODE_UNKNOWN,   /* anything */
};
#define CODE_KIND_SHIFT 60u

static inline uint64_t code_word(enum code_kind kind, uint64_t n)
{
    return (uint64_t)kind << CODE_KIND_SHIFT | n;
}

static inline enum code_kind code_kind(uint64_t word)
{
    return (enum code_kind)(word >> CODE_KIND_SHIFT);
}

static inline uint64_t code_n(uint64_t word)
{
    return word & (((uint64_t)1 << CODE_KIND_SHIFT) - 1);
}

struct code_text {
    const char *p;
    uint64_t n;
};

struct code_tuple {
    size_t first, n; /* of `held` */
    uint64_t pair;   /* its second value, if it has two and the first is a global; else 0 */
};

/* A memo entry with a number that is far beyond the number of entries. */
struct code_far {
    UT_hash_handle hh;
    uint64_t word;
};

struct code_name {
    UT_hash_handle hh; /* by module and name, each with its NUL */
    size_t use;
};

struct code_vm {
    struct zf_bytes in;
    const struct zf_limits *lim;
    struct zf_code_walk *out;
    struct zf_err *err;
    const struct code_op *op;
    uint8_t code;
    uint64_t op_at;           /* in in.p */
    const char *text, *text2; /* its operand … */
    uint64_t n, n2;           /* … the length of those, or a number */
    zf_vec(uint64_t) stack;
    zf_vec(size_t) mark;
    zf_vec(uint64_t) memo;
    zf_vec(struct code_tuple) tuple;
    zf_vec(uint32_t) held; /* uses */
    struct code_far *far;
    struct code_name *names;
    uint64_t n_memo;
    uint64_t name_bytes;
    uint64_t looked; /* bytes of texts that were read once more */
    bool odd_put;    /* a memo number that is none as far as is known here was put */
    bool stop;
};

static inline uint64_t code_off(const struct code_vm *vm)
{
    return vm->in.base + vm->op_at;
}

/* Python ends here with an exception: it is written down.  Returns false. */
bool code_ends(struct code_vm *vm, enum zf_code code, const char *why);

/* Reads what follows the opcode. */
bool code_read_operand(struct code_vm *vm, enum code_operand kind);
/* The text of a value, behind what is in *out; false: it is not known. */
struct zf_out;
bool code_read_text(struct code_vm *vm, uint64_t word, struct zf_out *out);
/* Of 'quoted' text with backslash escapes, as repr() of a str of Python 2, the text, behind what is in *text. */
bool code_text_unquote(const char *p, uint64_t n, struct zf_out *text) ZF_CHECKED;
/* The same of Latin-1 with \uXXXX and \UXXXXXXXX ("raw-unicode-escape"). */
bool code_text_unescape(const char *p, uint64_t n, struct zf_out *text) ZF_CHECKED;
/* A memo number: decimal digits only. */
bool code_text_key(const char *p, uint64_t n, uint64_t *out) ZF_CHECKED;

/* The numbers of the memo; false: it has no such entry, or there is no memory. */
bool code_memo_put(struct code_vm *vm, uint64_t key, uint64_t word);
bool code_memo_get(struct code_vm *vm, uint64_t key, uint64_t *word);
/* The same of PUT and GET, with a number in digits; *out: the value. */
bool code_memo_text(struct code_vm *vm, uint64_t word, bool put, uint64_t *out);

/* Enters a global, if it is a new one; *word: it. */
bool code_import(struct code_vm *vm, struct code_text module, struct code_text name, bool computed,
                 uint64_t *word);
bool code_stack_global(struct code_vm *vm, uint64_t module, uint64_t name, uint64_t *word);
/* vm->n: a number that stands for a global that some module registered. */
bool code_extension(struct code_vm *vm, uint64_t *word);
/* The value is called, or one of its methods. */
void code_call(struct code_vm *vm, uint64_t word);
/* To a call: a global, or those of a tuple of arguments. */
void code_give(struct code_vm *vm, uint64_t args);
/* callee(*args) */
uint64_t code_made(struct code_vm *vm, uint64_t callee, uint64_t args);
/* A tuple of at[n]. */
bool code_tuple(struct code_vm *vm, const uint64_t *at, uint64_t n, uint64_t *word);

#endif
