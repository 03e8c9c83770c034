/* SPDX-License-Identifier: Apache-2.0 */
/* Pickle protocols 2 … 5 as a tree of values.  Nothing is imported or called: a global is a name,
 * REDUCE and its kin make a *description* of a call.  Source: CPython Lib/pickle.py,
 * Lib/pickletools.py, PEP 574. */
#ifndef ZF_CODEC_PICKLE_H
#define ZF_CODEC_PICKLE_H

#include <zf/base/arena.h>
#include <zf/base/bytes.h>
#include <zf/base/limits.h>

enum zf_pv_kind {
    ZF_PV_NONE,
    ZF_PV_BOOL,
    ZF_PV_INT,    /* fits int64_t */
    ZF_PV_BIGINT, /* does not: little-endian two's complement bytes */
    ZF_PV_FLOAT,
    ZF_PV_BYTES, /* bytes and bytearray */
    ZF_PV_STR,   /* UTF-8 with surrogates passed through; may hold NUL */
    ZF_PV_TUPLE,
    ZF_PV_LIST,
    ZF_PV_DICT,
    ZF_PV_SET, /* set and frozenset */
    ZF_PV_GLOBAL,
    ZF_PV_CALL,   /* callee(*args), with what BUILD, APPENDS, SETITEMS put on it */
    ZF_PV_PERSID, /* a persistent id */
    ZF_PV_EXT,    /* an extension-registry code, a NEXT_BUFFER: opaque */
};

struct zf_pv; /* arena-owned, immutable; may share and may be cyclic: walk with a depth */

/* Reads one pickle from *in on and leaves *in behind its STOP (legacy torch files hold several in a
 * row).  Values live in the arena and borrow nothing from in.  One thread at a time may use the
 * values of one pickle: zf_pv_get indexes a large mapping when it is first asked.
 * Python 2's `__builtin__` and `copy_reg` are `builtins` and `copyreg` here.
 * A mapping that has a key twice, as Python compares keys, is refused: Python would keep the last
 * value.  Objects as keys are compared by identity only.
 * A failure because the input ends too early sets in->bad.
 * Errors: ZF_E_FORMAT with the offset of the opcode, or the key; ZF_E_UNSUPPORTED an opcode that only protocol 0 or 1
 * has; ZF_E_LIMIT (also: the system gives no memory). */
const struct zf_pv *zf_pickle_load(struct zf_bytes *in, struct zf_arena *arena,
                                   const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* Looks for the end of a pickle without reading its values, from the opcode at in->at on.  True: *in is behind STOP.
 * False and in->bad: the input ends within the opcode at in->at (or the frame that it begins), which takes at least
 * *want_out bytes.  False otherwise: there is no opcode at in->at. */
bool zf_pickle_end(struct zf_bytes *in, uint64_t *want_out);

/* v as it was before it was folded, in *scratch, until that is used for another; v itself if it is not folded.  What is
 * made there is no longer folded, and never holds what is.  Begin with {0}. */
struct zf_pv_scratch {
    const struct zf_pv *folded, *made; /* the value that is there, before and after; NULL: none */
    uint64_t word[256];
};
const struct zf_pv *zf_pv_unfold(const struct zf_pv *v, struct zf_pv_scratch *scratch);

/* Reads along while a large pickle is read, so that it never is in memory as a whole. */
struct zf_pickle_watch {
    /* `map`, so far a DICT without pairs, or one of which pairs were handed over already, is to become the
     * attribute `name` of the pickle's own object: are its next pairs wanted (*out)? */
    bool (*wants)(void *ctx, const char *name, const struct zf_pv *map, bool *out,
                  struct zf_err *err);
    /* A pair that is not put into `map`.  Both values are gone after this but for what zf_pv_keep
     * was asked to keep; what the pickle needs elsewhere, too, it may not change any more. */
    bool (*pair)(void *ctx, const struct zf_pv *map, const struct zf_pv *key,
                 const struct zf_pv *val, struct zf_err *err);
    void *ctx;
    /* the input is in the caller's own memory, of malloc, and is zeroed as it is read */
    bool spends;
};

/* All may be left out. */
struct zf_pickle_with {
    uint64_t
        stored; /* bytes that the pickle was decompressed from, which meta_memory counts; 0 = it was not */
    /* The first persistent id that was read, NULL = none; zf_pv_persid_next gives the others in the order of the pickle,
     * those that are no part of the value included.  Not together with `folded`. */
    const struct zf_pv **pids_out;
    /* Most of the pickle is calls that are alike: of the values that are set in a mapping those calls for which this
     * answers yes (by their callee) are kept folded, in a sixth of the memory, if nothing else refers to them or to
     * what can change in them.  Of a folded call all can be asked but for its arguments: these only zf_pv_unfold gives. */
    bool (*folded)(const struct zf_pv *call);
    /* What was handed over belongs to the pickle only if its attribute `name` is `map` in the end, which is for the
     * caller to see: pairs that were put there one by one are left in it.  Whether keys that were handed over differ is
     * not looked at. */
    const struct zf_pickle_watch *watch;
};
/* As zf_pickle_load. */
const struct zf_pv *zf_pickle_load_with(struct zf_bytes *in, struct zf_arena *arena,
                                        const struct zf_limits *lim,
                                        const struct zf_pickle_with *with,
                                        struct zf_err *err) ZF_CHECKED;
/* A value that was handed over, and all in it, lives as long as the arena. */
void zf_pv_keep(const struct zf_pv *v);

/* All accessors take NULL and any kind, and then answer "not that": false, 0 or NULL. */
enum zf_pv_kind zf_pv_kind(const struct zf_pv *v); /* NULL is NONE */
bool zf_pv_bool(const struct zf_pv *v, bool *out);
bool zf_pv_int(const struct zf_pv *v, int64_t *out);  /* INT and BOOL */
bool zf_pv_u64(const struct zf_pv *v, uint64_t *out); /* INT >= 0 and BIGINT that fits */
bool zf_pv_float(const struct zf_pv *v, double *out); /* FLOAT only */
bool zf_pv_is_number(const struct zf_pv *v);          /* INT or FLOAT? */
/* STR, BYTES, BIGINT: borrowed bytes, terminated by a NUL that is not counted. */
const char *zf_pv_text(const struct zf_pv *v, uint64_t *n_out);
bool zf_pv_eq(const struct zf_pv *v, const char *text); /* a STR with exactly this text? */

/* TUPLE, LIST, SET: elements.  DICT: pairs.  CALL: what was appended or set on it (dict and list
 * subclasses).  0 for all else. */
uint64_t zf_pv_len(const struct zf_pv *v);
const struct zf_pv *zf_pv_item(const struct zf_pv *v, uint64_t i);
const struct zf_pv *zf_pv_key(const struct zf_pv *v, uint64_t i); /* DICT, CALL with items */
const struct zf_pv *zf_pv_val(const struct zf_pv *v, uint64_t i);
/* The number of children (values, not keys) from `first` on are of one of `kinds`, bits of 1u << kind, or
 * are an empty container when ZF_PV_EMPTY is among them; looks at no more than len. */
#define ZF_PV_EMPTY (1u << 31)
uint64_t zf_pv_span(const struct zf_pv *v, uint64_t first, uint32_t kinds);
/* The value of a text key in a DICT or in a CALL's items; NULL = absent. */
const struct zf_pv *zf_pv_get(const struct zf_pv *v, const char *key);
/* The value of a number key there; quick where the keys are 0, 1, 2 … */
const struct zf_pv *zf_pv_get_id(const struct zf_pv *v, uint64_t id);
/* Is it a mapping: a DICT, or a CALL that got items (OrderedDict, defaultdict)? */
bool zf_pv_is_map(const struct zf_pv *v);
/* Is it a sequence: a LIST or TUPLE, or a CALL that got appends? */
bool zf_pv_is_seq(const struct zf_pv *v);

/* May v be referenced from several places?  Every value that is, and one in every cycle, says
 * so; a walk need remember no others. */
bool zf_pv_many(const struct zf_pv *v);

/* Was v changed after it had been put into a tuple?  Arguments are one, and Python has carried out the call with what
 * was in them then.  No pickler writes this but for values that hold themselves. */
bool zf_pv_late(const struct zf_pv *v);

/* GLOBAL: "module" and "name" ("" for NULL).  CALL: of its callee when that is a GLOBAL. */
const char *zf_pv_module(const struct zf_pv *v);
const char *zf_pv_name(const struct zf_pv *v);
/* Is v a CALL (or NEWOBJ …) of this class or function?  module NULL = any module. */
bool zf_pv_is(const struct zf_pv *v, const char *module, const char *name);
const struct zf_pv *zf_pv_callee(const struct zf_pv *v);
const struct zf_pv *zf_pv_args(const struct zf_pv *v); /* CALL: the argument tuple (may be NULL) */
const struct zf_pv *zf_pv_arg(const struct zf_pv *v, uint64_t i);
const struct zf_pv *zf_pv_kwargs(const struct zf_pv *v); /* CALL: NEWOBJ_EX's dict, else NULL */
const struct zf_pv *zf_pv_state(const struct zf_pv *v);  /* CALL: the last BUILD's argument */
/* The attribute of an instance: looks in its state's dict, then in the second half of a (dict,
 * slots) pair. */
const struct zf_pv *zf_pv_attr(const struct zf_pv *v, const char *name);
/* The same of the state itself. */
const struct zf_pv *zf_pv_field(const struct zf_pv *state, const char *name);
const struct zf_pv *zf_pv_persid(const struct zf_pv *v);      /* PERSID: the id */
const struct zf_pv *zf_pv_persid_next(const struct zf_pv *v); /* PERSID: the one read after it */

/* Bytes however the protocol spelt them: BYTES, `_codecs.encode(text, 'latin1')`, `bytes()`,
 * `bytearray(…)`. Borrowed from v or put into the arena.  Errors: ZF_E_FORMAT it is none of
 * these; ZF_E_LIMIT. */
bool zf_pv_bytes(const struct zf_pv *v, struct zf_arena *arena, const char **p_out, uint64_t *n_out,
                 struct zf_err *err) ZF_CHECKED;

#endif
