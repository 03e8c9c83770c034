/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/take.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { TAKE_PLACE = 256, TAKE_DIMS = 64, TAKE_DIGITS = 18 };

/* ---- the path of a value ---- */

/* The value's key in its container as text, or NULL. */
static const char *take_called(const struct zf_take *x)
{
    const struct zf_pv *key = zf_pv_key(x->in->v, x->at);
    uint64_t n;

    return !x->key && zf_pv_val(x->in->v, x->at) == x->v && zf_pv_kind(key) == ZF_PV_STR
               ? zf_pv_text(key, &n)
               : x->key;
}

/* Prepends the step from x's container to x to text, which ends at the end of the buffer; a step that does not fit is
 * left out. */
static char *take_prepend(const struct zf_take *x, const char *start, char *text)
{
    const char *called = take_called(x);
    char step[100];
    int n = called ? snprintf(step, sizeof step, "!%.96s", called)
                   : snprintf(step, sizeof step, "[%" PRIu64 "]", x->at);

    if (n < 0 || (size_t)n >= sizeof step || text - start < n)
        return text;
    return memcpy(text - n, step, (size_t)n);
}

static bool take_keep(const struct zf_take *x, const struct zf_err *err)
{
    struct zf_taker *t = x->t;
    char place[TAKE_PLACE], *text = place + sizeof place - 1;

    if (t->failed)
        return false;
    *text = '\0';
    for (const struct zf_take *at = x; at->in; at = at->in)
        text = take_prepend(at, place, text);
    t->failed = true;
    t->err = *err;
    if (err->path[0] == '\0' || err->path[0] == '!') /* the error does not name a file yet */
        (void)zf_err_in(&t->err, "%s", text);
    return false;
}

bool zf_take_fail(const struct zf_take *x, const struct zf_err *err)
{
    (void)take_keep(x, err);
    return false;
}

bool zf_take_refuse(const struct zf_take *x, enum zf_code code, const char *fmt, ...)
{
    struct zf_err err;
    char text[sizeof err.msg];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)zf_fail(&err, code, ZF_OFF_NONE, "%s", text);
    return zf_take_fail(x, &err);
}

bool zf_take_most(const struct zf_take *x, uint64_t n, uint64_t most, enum zf_limit limit)
{
    struct zf_err err;

    return n <= most ||
           zf_fail_limit(&err, limit, ZF_OFF_NONE,
                         "it has %" PRIu64 " entries, more than the limit %s=%" PRIu64, n,
                         zf_limit_name(limit), most) ||
           zf_take_fail(x, &err);
}

/* ---- other kinds than expected ---- */

static const char *const take_found[] = {
    [ZF_PV_NONE] = "None",        [ZF_PV_BOOL] = "a bool",
    [ZF_PV_INT] = "a number",     [ZF_PV_BIGINT] = "a number of more than 64 bits",
    [ZF_PV_FLOAT] = "a float",    [ZF_PV_BYTES] = "bytes",
    [ZF_PV_STR] = "a text",       [ZF_PV_TUPLE] = "a tuple",
    [ZF_PV_LIST] = "a list",      [ZF_PV_DICT] = "a dict",
    [ZF_PV_SET] = "a set",        [ZF_PV_GLOBAL] = "a global",
    [ZF_PV_CALL] = "an object",   [ZF_PV_PERSID] = "a storage",
    [ZF_PV_EXT] = "an extension",
};

static bool take_other(const struct zf_take *x, const char *expected)
{
    int64_t number;

    if (x->t->failed)
        return false;
    if (!x->v)
        return zf_take_refuse(x, ZF_E_FORMAT, "it is missing: expected %s", expected);
    if (zf_pv_kind(x->v) == ZF_PV_INT && zf_pv_int(x->v, &number))
        return zf_take_refuse(x, ZF_E_FORMAT, "expected %s, found %" PRId64, expected, number);
    if (zf_pv_kind(x->v) == ZF_PV_CALL) {
        return zf_take_refuse(x, ZF_E_FORMAT, "expected %s, found a %.60s", expected,
                              zf_pv_name(x->v));
    }
    return zf_take_refuse(x, ZF_E_FORMAT, "expected %s, found %s", expected,
                          take_found[zf_pv_kind(x->v)]);
}

/* ---- values ---- */

struct zf_take zf_take_root(struct zf_taker *t, const struct zf_pv *v)
{
    return (struct zf_take){.t = t, .v = v};
}

struct zf_take zf_take_key(const struct zf_take *in, const char *key)
{
    const struct zf_pv *v = NULL;

    if (!in->t->failed) {
        v = zf_pv_get(in->v, key);
        v = v ? v : zf_pv_attr(in->v, key);
    }
    return (struct zf_take){.t = in->t, .in = in, .v = v, .key = key};
}

struct zf_take zf_take_item(const struct zf_take *in, uint64_t i)
{
    const struct zf_pv *v = NULL;

    if (!in->t->failed) {
        v = zf_pv_is_map(in->v)                                      ? zf_pv_val(in->v, i)
            : zf_pv_is_seq(in->v) || zf_pv_kind(in->v) != ZF_PV_CALL ? zf_pv_item(in->v, i)
                                                                     : zf_pv_arg(in->v, i);
    }
    return (struct zf_take){.t = in->t, .in = in, .v = v, .at = i};
}

struct zf_take zf_take_name(const struct zf_take *in, uint64_t i)
{
    const struct zf_pv *v = in->t->failed ? NULL : zf_pv_key(in->v, i);

    return (struct zf_take){.t = in->t, .in = in, .v = v, .at = i};
}

struct zf_take zf_take_id(const struct zf_take *in, uint64_t id)
{
    const struct zf_pv *v = in->t->failed ? NULL : zf_pv_get_id(in->v, id);

    return (struct zf_take){.t = in->t, .in = in, .v = v, .at = id};
}

bool zf_take_given(const struct zf_take *x)
{
    return x->v && zf_pv_kind(x->v) != ZF_PV_NONE;
}

uint64_t zf_take_list(const struct zf_take *x)
{
    return zf_pv_is_seq(x->v) || take_other(x, "a list") ? zf_pv_len(x->v) : 0;
}

bool zf_take_list_of(const struct zf_take *x, uint64_t n)
{
    uint64_t found = zf_take_list(x);

    return !x->t->failed &&
           zf_take_must(x, found == n, "it has %" PRIu64 " entries, expected %" PRIu64, found, n);
}

uint64_t zf_take_map(const struct zf_take *x)
{
    bool empty = zf_pv_kind(x->v) == ZF_PV_CALL && zf_pv_len(x->v) == 0;

    return zf_pv_is_map(x->v) || empty || take_other(x, "a mapping") ? zf_pv_len(x->v) : 0;
}

bool zf_take_call(const struct zf_take *x, const char *class)
{
    char expected[80];

    (void)snprintf(expected, sizeof expected, "a %.70s", class);
    return zf_pv_is(x->v, NULL, class) || take_other(x, expected);
}

uint64_t zf_take_u64(const struct zf_take *x)
{
    uint64_t out = 0;

    return zf_pv_u64(x->v, &out) || take_other(x, "a number >= 0") ? out : 0;
}

uint64_t zf_take_decimal(const struct zf_take *x)
{
    uint64_t len;
    const char *text = zf_pv_kind(x->v) == ZF_PV_STR ? zf_pv_text(x->v, &len) : NULL;
    size_t n = text ? strspn(text, "0123456789") : 0;

    return !text ? zf_take_u64(x)
           : (n > 0 && n <= TAKE_DIGITS && text[n] == '\0') || take_other(x, "a number >= 0")
               ? strtoull(text, NULL, 10)
               : 0;
}

bool zf_take_bool(const struct zf_take *x)
{
    bool out = false;

    return (zf_pv_bool(x->v, &out) || take_other(x, "True or False")) && out;
}

const char *zf_take_text(const struct zf_take *x, uint64_t *n_out)
{
    uint64_t n = 0;
    const char *text = zf_pv_kind(x->v) == ZF_PV_STR ? zf_pv_text(x->v, &n) : NULL;

    if (!text)
        (void)take_other(x, "a text");
    if (n_out)
        *n_out = n;
    return text ? text : "";
}

const uint64_t *zf_take_sizes(const struct zf_take *x, uint32_t *n_out)
{
    static const uint64_t none;
    const struct zf_pv *size = zf_torch_size(x->v);
    uint64_t n = zf_pv_len(size);

    *n_out = 0;
    if (!size || !zf_take_most(x, n, TAKE_DIMS, ZF_LIMIT_tensor_dims)) {
        (void)take_other(x, "a list of at most 64 sizes");
        return &none;
    }
    uint64_t *out = zf_take_room(x->t, n, sizeof *out);
    for (uint64_t i = 0; out && i < n; i++) {
        struct zf_take one = {.t = x->t, .in = x, .v = zf_pv_item(size, i), .at = i};

        out[i] = zf_take_u64(&one);
    }
    *n_out = x->t->failed ? 0 : (uint32_t)n;
    return x->t->failed ? &none : out;
}

bool zf_take_tensor(const struct zf_take *x, struct zf_keeper *k, struct zf_torch *t,
                    struct zf_tensor_ref *out)
{
    struct zf_err err;

    if (x->t->failed || (!x->v && !take_other(x, "a tensor")))
        return false;
    return zf_tensor_ref_read(k, t, x->v, out, &err) || zf_take_fail(x, &err);
}

void *zf_take_room(struct zf_taker *t, uint64_t n, size_t size)
{
    struct zf_err err;
    void *out = t->failed ? NULL : zf_arena_get(t->arena, n, size, &err);

    if (!out && !t->failed) {
        t->failed = true;
        t->err = err;
    }
    return out;
}

bool zf_take_ok(const struct zf_taker *t, struct zf_err *err)
{
    if (t->failed)
        *err = t->err;
    return !t->failed;
}
