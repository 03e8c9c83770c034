/* SPDX-License-Identifier: Apache-2.0 */
/* Pickle protocols 2 … 5 as a tree of values.  Nothing is imported or called: a global is a name,
 * REDUCE and the like make a *description* of a call.  Source: CPython Lib/pickle.py,
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
    ZF_PV_CALL,   /* callee(*args), and what BUILD, APPENDS, SETITEMS added to it */
    ZF_PV_PERSID, /* a persistent id */
    ZF_PV_EXT,    /* an extension-registry code, a NEXT_BUFFER: opaque */
};

struct zf_pv; /* arena-owned, immutable; may be shared or cyclic: limit the depth of walks */

/* Reads one pickle from *in and leaves *in after its STOP (legacy torch files hold several in a row).  Values live in
 * the arena and borrow nothing from in.  Only one thread at a time may use the values of one pickle: zf_pv_get indexes
 * a large mapping when it is first used on it.
 * Python 2's `__builtin__` and `copy_reg` are `builtins` and `copyreg` here.
 * A mapping with a duplicate key, by Python's comparison, is refused: Python would keep the last value.  Keys that are
 * objects are only compared by identity.
 * If the input ends too early, the failure also sets in->bad.
 * Errors: ZF_E_FORMAT with the offset of the opcode, or the key; ZF_E_UNSUPPORTED an opcode that only protocol 0 or 1
 * has; ZF_E_LIMIT (also: the system gives no memory). */
const struct zf_pv *zf_pickle_load(struct zf_bytes *in, struct zf_arena *arena,
                                   const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* Finds the end of a pickle without reading its values, from the opcode at in->at on.  True: *in is after STOP.
 * False and in->bad: the input ends within the opcode at in->at (or the frame that it begins), which takes at least
 * *want_out bytes.  False otherwise: there is no opcode at in->at. */
bool zf_pickle_end(struct zf_bytes *in, uint64_t *want_out);

/* The unfolded form of v, in *scratch, valid until that is used for another value; v itself if it is not folded.  An
 * unfolded value contains no folded ones.  Begin with {0}. */
struct zf_pv_scratch {
    const struct zf_pv *folded,
        *made; /* the current value, before and after unfolding; NULL: none */
    uint64_t word[256];
};
const struct zf_pv *zf_pv_unfold(const struct zf_pv *v, struct zf_pv_scratch *scratch);

/* Callbacks while a large pickle is read, so that it is never completely in memory. */
struct zf_pickle_watch {
    /* `map`, a DICT that is still empty or whose pairs were passed to `pair` so far, will be the attribute `name` of
     * the pickle's root object.  Sets *out if its next pairs should be passed to `pair`. */
    bool (*wants)(void *ctx, const char *name, const struct zf_pv *map, bool *out,
                  struct zf_err *err);
    /* Gets a pair, which is not put into `map`.  Both values are freed afterwards, except those kept with zf_pv_keep;
     * values that the pickle uses elsewhere, too, cannot be changed by it any more. */
    bool (*pair)(void *ctx, const struct zf_pv *map, const struct zf_pv *key,
                 const struct zf_pv *val, struct zf_err *err);
    void *ctx;
    /* the input is in malloc'ed memory of the caller, and is zeroed as it is read */
    bool spends;
};

/* Options; all may be left out. */
struct zf_pickle_with {
    uint64_t
        stored; /* compressed size of the pickle, which meta_memory counts; 0 = not compressed */
    /* Set to the first persistent id that was read, NULL = none; zf_pv_persid_next gives the others in the order of the
     * pickle, including those that are no part of the value.  Cannot be combined with `folded`. */
    const struct zf_pv **pids_out;
    /* For pickles that consist mostly of similar calls: calls that are values of a mapping and for which this returns
     * true (by their callee) are stored folded, in a sixth of the memory, if nothing else refers to them or to a
     * mutable part of them.  All accessors work on a folded call except those of its arguments, which need
     * zf_pv_unfold. */
    bool (*folded)(const struct zf_pv *call);
    /* Pairs passed to watch->pair belong to the pickle only if its attribute `name` is `map` at the end, which the
     * caller must check; pairs that were set one by one stay in `map`.  Keys that were passed are not checked for
     * duplicates. */
    const struct zf_pickle_watch *watch;
};
/* As zf_pickle_load. */
const struct zf_pv *zf_pickle_load_with(struct zf_bytes *in, struct zf_arena *arena,
                                        const struct zf_limits *lim,
                                        const struct zf_pickle_with *with,
                                        struct zf_err *err) ZF_CHECKED;
/* Lets a value that was passed to watch->pair, and everything in it, live as long as the arena. */
void zf_pv_keep(const struct zf_pv *v);

/* All accessors accept NULL and any kind, and return false, 0 or NULL if they do not apply. */
enum zf_pv_kind zf_pv_kind(const struct zf_pv *v); /* NULL is NONE */
bool zf_pv_bool(const struct zf_pv *v, bool *out);
bool zf_pv_int(const struct zf_pv *v, int64_t *out);  /* INT and BOOL */
bool zf_pv_u64(const struct zf_pv *v, uint64_t *out); /* INT >= 0 and BIGINT that fits */
bool zf_pv_float(const struct zf_pv *v, double *out); /* FLOAT only */
bool zf_pv_is_number(const struct zf_pv *v);          /* INT or FLOAT? */
/* STR, BYTES, BIGINT: borrowed bytes, terminated by a NUL that is not counted. */
const char *zf_pv_text(const struct zf_pv *v, uint64_t *n_out);
bool zf_pv_eq(const struct zf_pv *v, const char *text); /* a STR with exactly this text? */

/* The number of elements of a TUPLE, LIST or SET, pairs of a DICT, or what was appended to or set on a CALL (dict and
 * list subclasses).  0 for all others. */
uint64_t zf_pv_len(const struct zf_pv *v);
const struct zf_pv *zf_pv_item(const struct zf_pv *v, uint64_t i);
const struct zf_pv *zf_pv_key(const struct zf_pv *v, uint64_t i); /* DICT, CALL with items */
const struct zf_pv *zf_pv_val(const struct zf_pv *v, uint64_t i);
/* The number of consecutive children (values, not keys) from `first` on that are of one of `kinds`, bits of 1u << kind,
 * or, with ZF_PV_EMPTY, an empty container. */
#define ZF_PV_EMPTY (1u << 31)
uint64_t zf_pv_span(const struct zf_pv *v, uint64_t first, uint32_t kinds);
/* The value of a text key in a DICT or in a CALL's items; NULL = absent. */
const struct zf_pv *zf_pv_get(const struct zf_pv *v, const char *key);
/* The value of a number key there; fast if the keys are 0, 1, 2 … */
const struct zf_pv *zf_pv_get_id(const struct zf_pv *v, uint64_t id);
/* True for a mapping: a DICT, or a CALL that got items (OrderedDict, defaultdict). */
bool zf_pv_is_map(const struct zf_pv *v);
/* True for a sequence: a LIST or TUPLE, or a CALL that got appends. */
bool zf_pv_is_seq(const struct zf_pv *v);

/* True if v may be referenced from several places.  It is true for every value that is, and for at least one in every
 * cycle, so a walk needs to remember no others. */
bool zf_pv_many(const struct zf_pv *v);

/* True if v was changed after it had been put into a tuple.  A call's arguments are a tuple, and Python has made the
 * call with their earlier contents.  Picklers write this only for values that contain themselves. */
bool zf_pv_late(const struct zf_pv *v);

/* The module and name of a GLOBAL ("" for NULL), or of a CALL's callee if that is a GLOBAL. */
const char *zf_pv_module(const struct zf_pv *v);
const char *zf_pv_name(const struct zf_pv *v);
/* True if v is a CALL (or NEWOBJ …) of this class or function.  module NULL = any module. */
bool zf_pv_is(const struct zf_pv *v, const char *module, const char *name);
const struct zf_pv *zf_pv_callee(const struct zf_pv *v);
const struct zf_pv *zf_pv_args(const struct zf_pv *v); /* CALL: the argument tuple (may be NULL) */
const struct zf_pv *zf_pv_arg(const struct zf_pv *v, uint64_t i);
const struct zf_pv *zf_pv_kwargs(const struct zf_pv *v); /* CALL: NEWOBJ_EX's dict, else NULL */
const struct zf_pv *zf_pv_state(const struct zf_pv *v);  /* CALL: the last BUILD's argument */
/* The attribute of an instance: looks in its state's dict, then in the second half of a (dict,
 * slots) pair. */
const struct zf_pv *zf_pv_attr(const struct zf_pv *v, const char *name);
/* The same for the state itself. */
const struct zf_pv *zf_pv_field(const struct zf_pv *state, const char *name);
const struct zf_pv *zf_pv_persid(const struct zf_pv *v);      /* PERSID: the id */
const struct zf_pv *zf_pv_persid_next(const struct zf_pv *v); /* PERSID: the one read after it */

/* Reads bytes in any form that the protocols have: BYTES, `_codecs.encode(text, 'latin1')`, `bytes()`, `bytearray(…)`.
 * Borrowed from v or put into the arena.  Errors: ZF_E_FORMAT it is none of these; ZF_E_LIMIT. */
bool zf_pv_bytes(const struct zf_pv *v, struct zf_arena *arena, const char **p_out, uint64_t *n_out,
                 struct zf_err *err) ZF_CHECKED;

#endif
