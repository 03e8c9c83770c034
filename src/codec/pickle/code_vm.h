/* SPDX-License-Identifier: Apache-2.0 */
/* The machine behind zf/codec/pickle_code.h.  A value is one word: only what is needed to follow imports and calls. */
#ifndef CODEC_PICKLE_CODE_VM_H
#define CODEC_PICKLE_CODE_VM_H

#include <zf/base/table.h>
#include <zf/codec/pickle_code.h>

/* The argument of an opcode, as in load.c. */
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
    CODE_ABSENT,    /* an unused memo entry */
    CODE_PLAIN,     /* neither text nor callable */
    CODE_TEXT,      /* the text of the opcode at offset n */
    CODE_GLOBAL,    /* the global of use n */
    CODE_MADE,      /* the result of calling use n */
    CODE_ATTRIBUTE, /* the result of use n, a getattr */
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
    size_t first, n; /* its globals: held[first … first + n) */
    uint64_t pair;   /* the second value of a pair of a global and a text; else 0 */
};

/* A memo entry with a number that is far beyond the number of entries. */
struct code_far {
    UT_hash_handle hh;
    uint64_t word;
};

struct code_name {
    UT_hash_handle hh; /* key: module and name, each with its NUL */
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
    const char *text, *text2; /* the operand's bytes or lines */
    uint64_t n, n2;           /* their lengths; n: or the operand's number */
    zf_vec(uint64_t) stack;
    zf_vec(size_t) mark;
    zf_vec(uint64_t) memo;
    zf_vec(struct code_tuple) tuple;
    zf_vec(uint32_t) held; /* uses */
    struct code_far *far;
    struct code_name *names;
    uint64_t n_memo;
    uint64_t name_bytes;
    uint64_t looked; /* total bytes of texts that were read again */
    bool odd_put;    /* there was a PUT with a memo number that could not be parsed */
    bool stop;
};

static inline uint64_t code_off(const struct code_vm *vm)
{
    return vm->in.base + vm->op_at;
}

/* Records that Python would raise an exception here.  Returns false. */
bool code_ends(struct code_vm *vm, enum zf_code code, const char *why);

/* Reads the opcode's operand. */
bool code_read_operand(struct code_vm *vm, enum code_operand kind);
/* Appends the text of a value to *out; false: it is not known. */
struct zf_out;
bool code_read_text(struct code_vm *vm, uint64_t word, struct zf_out *out);
/* Decodes 'quoted' text with backslash escapes, the repr() of a str of Python 2, and appends it to *text. */
bool code_text_unquote(const char *p, uint64_t n, struct zf_out *text) ZF_CHECKED;
/* Likewise for Latin-1 with \uXXXX and \UXXXXXXXX ("raw-unicode-escape"). */
bool code_text_unescape(const char *p, uint64_t n, struct zf_out *text) ZF_CHECKED;
/* Parses a memo number: decimal digits only. */
bool code_text_key(const char *p, uint64_t n, uint64_t *out) ZF_CHECKED;

/* Sets or gets a memo entry; false: there is no such entry, or no memory. */
bool code_memo_put(struct code_vm *vm, uint64_t key, uint64_t word);
bool code_memo_get(struct code_vm *vm, uint64_t key, uint64_t *word);
/* Likewise for PUT and GET, whose number is a line of digits; *out: the value. */
bool code_memo_text(struct code_vm *vm, uint64_t word, bool put, uint64_t *out);

/* Lists a global, unless it is listed already; *word: its value. */
bool code_import(struct code_vm *vm, struct code_text module, struct code_text name, bool computed,
                 uint64_t *word);
bool code_stack_global(struct code_vm *vm, uint64_t module, uint64_t name, uint64_t *word);
/* EXT: vm->n is the number of a global that some module registered with copyreg. */
bool code_extension(struct code_vm *vm, uint64_t *word);
/* Notes that the value, or one of its methods, is called. */
void code_call(struct code_vm *vm, uint64_t word);
/* Notes that args, a global or a tuple with globals, is passed to a call. */
void code_give(struct code_vm *vm, uint64_t args);
/* The value of callee(*args). */
uint64_t code_made(struct code_vm *vm, uint64_t callee, uint64_t args);
/* Makes a tuple of at[n]. */
bool code_tuple(struct code_vm *vm, const uint64_t *at, uint64_t n, uint64_t *word);

#endif
