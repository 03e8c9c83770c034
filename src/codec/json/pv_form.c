/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the JSON form of a pickled call: a device, a path, an enum member, a numpy scalar or one of
 * Python's containers is written as such; every other call as an object with its class, arguments and
 * attributes. */
#include "pv_out.h"

#include <endian.h>
#include <string.h>

/* At most this many nested calls that only wrap a value, as in list(tuple(set(…))), are removed. */
#define WRAPS_MAX 8

static bool pv_form_is_one_of(const struct zf_pv *v, const char *module, const char *const *names)
{
    for (; *names; names++)
        if (zf_pv_is(v, module, *names))
            return true;
    return false;
}

static bool pv_form_path(struct zf_pvjson *o, const struct zf_pv *v)
{
    static const char *const names[] = {"PosixPath",       "PurePosixPath", "WindowsPath",
                                        "PureWindowsPath", "Path",          NULL};
    const char *module = zf_pv_module(v);
    uint64_t n = zf_pv_len(zf_pv_args(v)), len = 0;

    if ((strcmp(module, "pathlib") != 0 && strcmp(module, "pathlib._local") != 0) ||
        !pv_form_is_one_of(v, NULL, names))
        return false;
    zf_pvjson_raw(o, "\"");
    for (uint64_t i = 0; i < n; i++) {
        const char *part = zf_pv_text(zf_pv_arg(v, i), &len);
        bool root = len == 1 && part[0] == '/';
        pvjson_chars(o, part ? part : "?", part ? len : 1);
        zf_pvjson_raw(o, i + 1 < n && !(i == 0 && root) ? "/" : "");
    }
    zf_pvjson_raw(o, "\"");
    return true;
}

/* torch.device('cuda', 1) */
static bool pv_form_device(struct zf_pvjson *o, const struct zf_pv *v)
{
    uint64_t n, index;
    const char *kind = zf_pv_text(zf_pv_arg(v, 0), &n);

    if (!zf_pv_is(v, "torch", "device") || !kind)
        return false;
    zf_pvjson_raw(o, "\"");
    pvjson_chars(o, kind, n);
    if (zf_pv_u64(zf_pv_arg(v, 1), &index))
        pvjson_fmt(o, ":%llu", (unsigned long long)index);
    zf_pvjson_raw(o, "\"");
    return true;
}

/* Recognizes an enum member as pickled by early releases of CPython 3.11; others write Enum(value), an
 * ordinary call. */
static bool pv_form_enum_member(struct zf_pvjson *o, const struct zf_pv *v)
{
    const struct zf_pv *class = zf_pv_arg(v, 0), *name = zf_pv_arg(v, 1);

    if (!zf_pv_is(v, "builtins", "getattr") || zf_pv_kind(class) != ZF_PV_GLOBAL ||
        zf_pv_kind(name) != ZF_PV_STR)
        return false;
    zf_pvjson_raw(o, "{\"__enum__\": \"");
    pvjson_key(o, class);
    zf_pvjson_raw(o, ".");
    pvjson_key(o, name);
    zf_pvjson_raw(o, "\"}");
    return true;
}

/* Writes the bytes of a numpy scalar of a plain little-endian type as a number. */
static bool pv_form_numpy_number(struct zf_pvjson *o, char kind, const char *p, uint64_t n)
{
    uint64_t u = 0;

    memcpy(&u, p, n);
    u = le64toh(u);
    if (kind == 'f' && n == sizeof(float)) {
        uint32_t bits = (uint32_t)u;
        float f;
        memcpy(&f, &bits, sizeof f);
        pvjson_number(o, (double)f);
    } else if (kind == 'f' && n == sizeof(double)) {
        double d;
        memcpy(&d, &u, sizeof d);
        pvjson_number(o, d);
    } else if (kind == 'u') {
        pvjson_fmt(o, "%llu", (unsigned long long)u);
    } else if (kind == 'i') {
        unsigned shift = (unsigned)(64 - 8 * n);
        pvjson_fmt(o, "%lld", (long long)((int64_t)(u << shift) >> shift));
    } else if (kind == 'b' && n == 1) {
        zf_pvjson_raw(o, u ? "true" : "false");
    } else {
        return false;
    }
    return true;
}

/* numpy.core.multiarray.scalar(numpy.dtype('f8', …), b'…').  In protocols below 3 the bytes are a call
 * of _codecs.encode; such a scalar is shown as a call. */
static bool pv_form_numpy_scalar(struct zf_pvjson *o, const struct zf_pv *v)
{
    const struct zf_pv *dtype = zf_pv_arg(v, 0), *order = zf_pv_item(zf_pv_state(dtype), 1);
    uint64_t n, n_code;
    const char *p = zf_pv_text(zf_pv_arg(v, 1), &n);
    const char *code = zf_pv_text(zf_pv_arg(dtype, 0), &n_code);

    if (!zf_pv_is(v, NULL, "scalar") || strncmp(zf_pv_module(v), "numpy.", 6) != 0 ||
        !zf_pv_is(dtype, "numpy", "dtype") || !p || !code || n_code != 2 || zf_pv_eq(order, ">") ||
        n == 0 || n > 8 || (char)('0' + n) != code[1])
        return false;
    return pv_form_numpy_number(o, code[0], p, n);
}

static bool pv_form_wrapped_bytes(struct zf_pvjson *o, const struct zf_pv *v)
{
    struct zf_err err;
    uint64_t n;
    const char *p;

    if (!zf_pv_is(v, "_codecs", "encode") && !zf_pv_is(v, "builtins", "bytes") &&
        !zf_pv_is(v, "builtins", "bytearray"))
        return false;
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(UINT64_MAX, &err);
    if (!arena || !zf_pv_bytes(v, arena, &p, &n, &err))
        return false;
    pvjson_bytes(o, "__bytes__", p, n);
    return true;
}

/* The contents of one of Python's own containers, if they are the call's first argument. */
static const struct zf_pv *pv_form_wrapped(const struct zf_pv *v)
{
    static const char *const own[] = {"set", "frozenset", "list", "tuple", "dict", NULL};
    static const char *const more[] = {"deque", "Counter", "OrderedDict", NULL};
    if (zf_pv_kind(v) != ZF_PV_CALL)
        return NULL;
    bool holder = pv_form_is_one_of(v, "builtins", own) ||
                  pv_form_is_one_of(v, "collections", more) || zf_pv_is(v, "torch", "Size");
    const struct zf_pv *first = zf_pv_arg(v, 0);

    return holder && zf_pv_len(v) == 0 &&
                   (zf_pv_is_map(first) || zf_pv_is_seq(first) || zf_pv_kind(first) == ZF_PV_SET)
               ? first
               : NULL;
}

/* Is the state a set of attributes: a dict, or a pair of dicts or None? */
static bool pv_form_is_attrs(const struct zf_pv *state)
{
    const struct zf_pv *slots = zf_pv_item(state, 1);

    if (zf_pv_kind(state) == ZF_PV_DICT)
        return true;
    return zf_pv_kind(state) == ZF_PV_TUPLE && zf_pv_len(state) == 2 && zf_pv_is_map(slots) &&
           (zf_pv_is_map(zf_pv_item(state, 0)) || zf_pv_kind(zf_pv_item(state, 0)) == ZF_PV_NONE);
}

static enum pvjson_form form_of_call(struct zf_pvjson *o, const struct zf_pv *v)
{
    static const char *const maps[] = {"OrderedDict", "defaultdict", "Counter", NULL};
    bool class = zf_pv_kind(zf_pv_callee(v)) == ZF_PV_GLOBAL;

    if (pv_form_path(o, v) || pv_form_device(o, v) || pv_form_enum_member(o, v) ||
        pv_form_numpy_scalar(o, v) || pv_form_wrapped_bytes(o, v))
        return ZF_PVJSON_DONE;
    if (zf_pv_is(v, "torch.serialization", "_get_layout") &&
        zf_pv_kind(zf_pv_arg(v, 0)) == ZF_PV_STR) {
        (void)pvjson_scalar(o, zf_pv_arg(v, 0));
        return ZF_PVJSON_DONE;
    }
    if (pv_form_is_one_of(v, "collections", maps) && (zf_pv_is_map(v) || zf_pv_len(v) == 0))
        return ZF_PVJSON_MAP;
    if (zf_pv_is(v, "collections", "deque"))
        return ZF_PVJSON_SEQ;
    if (class && zf_pv_len(zf_pv_args(v)) == 0 && zf_pv_len(v) == 0 &&
        pv_form_is_attrs(zf_pv_state(v)))
        return ZF_PVJSON_ATTRS;
    return ZF_PVJSON_CALL;
}

enum pvjson_form pvjson_form(struct zf_pvjson *o, const struct zf_pv **v)
{
    for (unsigned wraps = 0; wraps < WRAPS_MAX && pv_form_wrapped(*v); wraps++)
        *v = pv_form_wrapped(*v);
    if (pvjson_scalar(o, *v))
        return ZF_PVJSON_DONE;
    switch (zf_pv_kind(*v)) {
    case ZF_PV_DICT:
        return ZF_PVJSON_MAP;
    case ZF_PV_CALL:
        return form_of_call(o, *v);
    case ZF_PV_PERSID:
        return ZF_PVJSON_PERSID;
    default:
        return ZF_PVJSON_SEQ;
    }
}

static bool pv_form_next_attr(const struct zf_pv *v, uint64_t i, struct pvjson_part *part)
{
    const struct zf_pv *state = zf_pv_state(v);
    bool pair = zf_pv_kind(state) == ZF_PV_TUPLE;
    const struct zf_pv *dict = pair ? zf_pv_item(state, 0) : state;

    if (i == 0) {
        part->name = "__class__";
        return true;
    }
    i--;
    if (pair && i >= zf_pv_len(dict)) {
        i -= zf_pv_len(dict);
        dict = zf_pv_item(state, 1);
    }
    part->key = zf_pv_key(dict, i);
    part->v = zf_pv_val(dict, i);
    return part->v != NULL;
}

static bool pv_form_next_of_call(const struct zf_pv *v, uint64_t *at, struct pvjson_part *part)
{
    const struct zf_pv *callee = zf_pv_callee(v), *args = zf_pv_args(v);
    bool class = zf_pv_kind(callee) == ZF_PV_GLOBAL;
    struct pvjson_part parts[] = {
        {.name = "__class__", .v = class ? NULL : callee},
        {.name = "args", .v = zf_pv_len(args) || zf_pv_kind(args) != ZF_PV_TUPLE ? args : NULL},
        {.name = "kwargs", .v = zf_pv_kwargs(v)},
        {.name = "items",
         .v = zf_pv_len(v) ? v : NULL,
         .form = zf_pv_is_map(v) ? ZF_PVJSON_MAP : ZF_PVJSON_SEQ},
        {.name = "state", .v = zf_pv_state(v)},
    };

    while (*at < sizeof parts / sizeof parts[0]) {
        *part = parts[(*at)++];
        if (part->v || *at == 1)
            return true;
    }
    return false;
}

bool pvjson_next(const struct zf_pv *v, enum pvjson_form form, uint64_t *at,
                 struct pvjson_part *part)
{
    *part = (struct pvjson_part){.form = ZF_PVJSON_AUTO};
    if (form == ZF_PVJSON_CALL)
        return pv_form_next_of_call(v, at, part);
    uint64_t i = (*at)++;
    switch (form) {
    case ZF_PVJSON_SEQ:
        part->v = zf_pv_item(v, i);
        return part->v != NULL;
    case ZF_PVJSON_MAP:
        part->key = zf_pv_key(v, i);
        part->v = zf_pv_val(v, i);
        return part->v != NULL;
    case ZF_PVJSON_ATTRS:
        return pv_form_next_attr(v, i, part);
    case ZF_PVJSON_PERSID:
        part->name = "__persid__";
        part->v = zf_pv_persid(v);
        return i == 0;
    default:
        return false;
    }
}
