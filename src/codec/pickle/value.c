/* SPDX-License-Identifier: Apache-2.0 */
/* zf_pv_*: read access to values. */
#include <zf/codec/pickle.h>

#include <string.h>

#include "fold.h"
#include "node.h"

static bool value_is(const struct zf_pv *v, enum zf_pv_kind kind)
{
    return v && v->kind == kind;
}

enum zf_pv_kind zf_pv_kind(const struct zf_pv *v)
{
    return v ? (enum zf_pv_kind)v->kind : ZF_PV_NONE;
}

bool zf_pv_bool(const struct zf_pv *v, bool *out)
{
    if (!value_is(v, ZF_PV_BOOL))
        return false;
    *out = v->n != 0;
    return true;
}

bool zf_pv_int(const struct zf_pv *v, int64_t *out)
{
    if (!value_is(v, ZF_PV_INT) && !value_is(v, ZF_PV_BOOL))
        return false;
    *out = v->kind == ZF_PV_BOOL ? (int64_t)v->n : v->at[0].i;
    return true;
}

bool zf_pv_u64(const struct zf_pv *v, uint64_t *out)
{
    if (value_is(v, ZF_PV_INT) && v->at[0].i >= 0) {
        *out = (uint64_t)v->at[0].i;
        return true;
    }
    /* A BIGINT has the fewest bytes possible: nine hold a uint64_t if the ninth, with the sign, is
     * zero. */
    const uint8_t *p = value_is(v, ZF_PV_BIGINT) && v->n == 9 ? (const uint8_t *)v->at : NULL;
    if (!p || p[8] != 0)
        return false;
    uint64_t u = 0;
    for (unsigned i = 8; i-- > 0;)
        u = u << 8 | p[i];
    *out = u;
    return true;
}

bool zf_pv_is_number(const struct zf_pv *v)
{
    return value_is(v, ZF_PV_INT) || value_is(v, ZF_PV_FLOAT);
}

bool zf_pv_float(const struct zf_pv *v, double *out)
{
    if (!value_is(v, ZF_PV_FLOAT))
        return false;
    *out = v->at[0].f;
    return true;
}

const char *zf_pv_text(const struct zf_pv *v, uint64_t *n_out)
{
    bool text = value_is(v, ZF_PV_STR) || value_is(v, ZF_PV_BYTES) || value_is(v, ZF_PV_BIGINT);

    *n_out = text ? v->n : 0;
    return text ? (const char *)v->at : NULL;
}

bool zf_pv_eq(const struct zf_pv *v, const char *text)
{
    return value_is(v, ZF_PV_STR) && v->n == strlen(text) && memcmp(v->at, text, v->n) == 0;
}

uint64_t zf_pv_len(const struct zf_pv *v)
{
    switch (zf_pv_kind(v)) {
    case ZF_PV_TUPLE:
    case ZF_PV_LIST:
    case ZF_PV_SET:
    case ZF_PV_DICT:
    case ZF_PV_CALL:
        return v->n;
    default:
        return 0;
    }
}

/* The block of a container that has at least one element. */
static struct pv_items *value_items_of(const struct zf_pv *v)
{
    return v->kind == ZF_PV_CALL ? v->at[1].more->items : v->at[0].items;
}

bool zf_pv_is_map(const struct zf_pv *v)
{
    return value_is(v, ZF_PV_DICT) || (value_is(v, ZF_PV_CALL) && (v->flags & ZF_PV_MAP));
}

bool zf_pv_is_seq(const struct zf_pv *v)
{
    return value_is(v, ZF_PV_LIST) || value_is(v, ZF_PV_TUPLE) ||
           (value_is(v, ZF_PV_CALL) && v->n && !(v->flags & ZF_PV_MAP));
}

const struct zf_pv *zf_pv_item(const struct zf_pv *v, uint64_t i)
{
    if (!v)
        return NULL;
    switch (v->kind) {
    case ZF_PV_TUPLE:
        return i < v->n ? v->at[i].v : NULL;
    case ZF_PV_LIST:
    case ZF_PV_SET:
        return i < v->n ? v->at[0].items->at[i].v : NULL;
    case ZF_PV_CALL:
        return i < v->n && !(v->flags & ZF_PV_MAP) ? v->at[1].more->items->at[i].v : NULL;
    default:
        return NULL;
    }
}

const struct zf_pv *zf_pv_key(const struct zf_pv *v, uint64_t i)
{
    return zf_pv_is_map(v) && i < v->n ? value_items_of(v)->at[2 * i].v : NULL;
}

const struct zf_pv *zf_pv_val(const struct zf_pv *v, uint64_t i)
{
    return zf_pv_is_map(v) && i < v->n ? value_items_of(v)->at[2 * i + 1].v : NULL;
}

static bool value_is_empty_container(const struct zf_pv *v)
{
    return v->n == 0 && v->kind >= ZF_PV_TUPLE && v->kind <= ZF_PV_SET;
}

uint64_t zf_pv_span(const struct zf_pv *v, uint64_t first, uint32_t kinds)
{
    uint64_t len = zf_pv_len(v), i = first;

    if (first >= len)
        return 0;
    bool pairs = zf_pv_is_map(v), empty = kinds & ZF_PV_EMPTY;
    const union pv_slot *at = v->kind == ZF_PV_TUPLE ? v->at : value_items_of(v)->at;
    for (; i < len; i++) {
        const struct zf_pv *child = at[pairs ? 2 * i + 1 : i].v;

        if (!(kinds & 1u << child->kind) && !(empty && value_is_empty_container(child)))
            break;
    }
    return i - first;
}

const struct zf_pv *zf_pv_get(const struct zf_pv *v, const char *key)
{
    if (!zf_pv_is_map(v) || v->n == 0)
        return NULL;
    return pickle_index_get(value_items_of(v), v->n, key, strlen(key));
}

const struct zf_pv *zf_pv_get_id(const struct zf_pv *v, uint64_t id)
{
    uint64_t n = zf_pv_is_map(v) ? zf_pv_len(v) : 0, first = id < n ? id : 0, k;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = (first + i) % n;

        if (zf_pv_u64(zf_pv_key(v, at), &k) && k == id)
            return zf_pv_val(v, at);
    }
    return NULL;
}

bool zf_pv_many(const struct zf_pv *v)
{
    return v && (v->flags & ZF_PV_MANY);
}

bool zf_pv_late(const struct zf_pv *v)
{
    return v && v->kind != ZF_PV_GLOBAL && (v->flags & ZF_PV_LATE);
}

void zf_pv_keep(const struct zf_pv *v)
{
    if (v)
        (void)pickle_again((struct zf_pv *)v);
}

static const struct zf_pv *value_global_of(const struct zf_pv *v)
{
    v = value_is(v, ZF_PV_CALL) ? zf_pv_callee(v) : v;
    return value_is(v, ZF_PV_GLOBAL) ? v : NULL;
}

const char *zf_pv_module(const struct zf_pv *v)
{
    const struct zf_pv *g = value_global_of(v);

    return g ? (const char *)g->at[0].v->at : "";
}

const char *zf_pv_name(const struct zf_pv *v)
{
    const struct zf_pv *g = value_global_of(v);

    return g ? (const char *)g->at[1].v->at : "";
}

const char *pv_module_now(const char *module)
{
    return strcmp(module, "__builtin__") == 0 ? "builtins"
           : strcmp(module, "copy_reg") == 0  ? "copyreg"
                                              : module;
}

bool zf_pv_is(const struct zf_pv *v, const char *module, const char *name)
{
    return value_is(v, ZF_PV_CALL) && value_global_of(v) && strcmp(zf_pv_name(v), name) == 0 &&
           (!module || strcmp(zf_pv_module(v), pv_module_now(module)) == 0);
}

const struct zf_pv *zf_pv_callee(const struct zf_pv *v)
{
    return !value_is(v, ZF_PV_CALL)  ? NULL
           : v->flags & ZF_PV_FOLDED ? v->at[0].form->part[1].v
                                     : v->at[0].v;
}

static const struct pv_more *value_more_of(const struct zf_pv *v)
{
    return value_is(v, ZF_PV_CALL) && (v->flags & ZF_PV_MORE) ? v->at[1].more : NULL;
}

const struct zf_pv *zf_pv_args(const struct zf_pv *v)
{
    const struct pv_more *more = value_more_of(v);

    if (more || !value_is(v, ZF_PV_CALL) || (v->flags & ZF_PV_FOLDED))
        return more ? more->args : NULL;
    return v->at[1].v;
}

const struct zf_pv *zf_pv_kwargs(const struct zf_pv *v)
{
    const struct pv_more *more = value_more_of(v);

    return more ? more->kwargs : NULL;
}

const struct zf_pv *zf_pv_arg(const struct zf_pv *v, uint64_t i)
{
    return zf_pv_item(zf_pv_args(v), i);
}

const struct zf_pv *zf_pv_state(const struct zf_pv *v)
{
    const struct pv_more *more = value_more_of(v);

    return more ? more->state : NULL;
}

const struct zf_pv *zf_pv_attr(const struct zf_pv *v, const char *name)
{
    return zf_pv_field(zf_pv_state(v), name);
}

const struct zf_pv *zf_pv_field(const struct zf_pv *state, const char *name)
{
    const struct zf_pv *found = zf_pv_get(state, name);

    if (found || !value_is(state, ZF_PV_TUPLE) || state->n != 2)
        return found;
    found = zf_pv_get(state->at[0].v, name);
    return found ? found : zf_pv_get(state->at[1].v, name);
}

const struct zf_pv *zf_pv_persid(const struct zf_pv *v)
{
    return value_is(v, ZF_PV_PERSID) ? v->at[0].v : NULL;
}

const struct zf_pv *zf_pv_persid_next(const struct zf_pv *v)
{
    return value_is(v, ZF_PV_PERSID) ? v->at[1].v : NULL;
}

/* Encodes a text in Latin-1: its code points become bytes.  False: one is above 0xff. */
static bool value_latin1(const struct zf_pv *text, char *out, uint64_t *n_out)
{
    const uint8_t *p = (const uint8_t *)text->at;
    uint64_t at = 0;

    for (uint32_t i = 0; i < text->n; i++) {
        if (p[i] < 0x80) {
            out[at++] = (char)p[i];
        } else if ((p[i] & 0xfc) == 0xc0) {
            out[at++] = (char)(p[i] << 6 | (p[i + 1] & 0x3f));
            i++;
        } else {
            return false;
        }
    }
    *n_out = at;
    out[at] = '\0';
    return true;
}

bool zf_pv_bytes(const struct zf_pv *v, struct zf_arena *arena, const char **p_out, uint64_t *n_out,
                 struct zf_err *err)
{
    bool wrapped = zf_pv_is(v, "builtins", "bytes") || zf_pv_is(v, "builtins", "bytearray");

    if (wrapped && zf_pv_len(zf_pv_args(v)) == 0) {
        *p_out = "";
        *n_out = 0;
        return true;
    }
    v = wrapped ? zf_pv_arg(v, 0) : v;
    if (value_is(v, ZF_PV_BYTES)) {
        *p_out = zf_pv_text(v, n_out);
        return true;
    }
    bool encoded = zf_pv_is(v, "_codecs", "encode") &&
                   (zf_pv_eq(zf_pv_arg(v, 1), "latin1") || zf_pv_eq(zf_pv_arg(v, 1), "latin-1"));
    /* bytearray(text, 'latin-1') */
    const struct zf_pv *text = encoded ? zf_pv_arg(v, 0) : wrapped ? v : NULL;
    if (!value_is(text, ZF_PV_STR))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the value is not bytes");
    char *out = zf_arena_get(arena, (uint64_t)text->n + 1, 1, err);
    if (!out)
        return false;
    *p_out = out;
    return value_latin1(text, out, n_out) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the value is not bytes written as Latin-1");
}
