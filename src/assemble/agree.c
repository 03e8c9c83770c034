/* SPDX-License-Identifier: Apache-2.0 */
/* A value is flattened into pairs of name and text, a pair a number or text inside it.  Names follow each
 * other and are long ("param_shapes[0].model.layers.7.mlp.up_proj.weight[1]"), and nearly all lists are equal: they are kept as
 * bytes, of each name what differs from the one before, and made into pairs only where the bytes differ (agree_compare.c). */
#include "agree_list.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/model/cast.h>

#define AGREE_DEPTH 32

struct zf_agree *zf_agree_new(const char *file, uint64_t budget, struct zf_err *err)
{
    struct zf_agree *g = calloc(1, sizeof *g);

    if (g)
        *g = (struct zf_agree){.budget = budget, .file = strdup(file)};
    if (!g || !g->file) {
        zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        zf_agree_free(g);
        return NULL;
    }
    return g;
}

void zf_agree_free(struct zf_agree *g)
{
    if (g) {
        free(g->file);
        zf_auto_out(&g->bytes);
        zf_auto_out(&g->name);
        zf_auto_out(&g->text);
        zf_auto_out(&g->last);
        zf_vec_fini(&g->section);
        free(g);
    }
}

/* Adds g->text under g->name, which begins with the section's key. */
static bool agree_put(struct zf_agree *g, struct zf_err *err)
{
    const size_t n = g->name.n, most = n < g->last.n ? n : g->last.n;
    size_t same = 0;

    while (same < most && g->name.p[same] == g->last.p[same])
        same++;
    zf_out_var(&g->bytes, same);
    zf_out_counted(&g->bytes, zf_out_text(&g->name) + same, n - same);
    zf_out_counted(&g->bytes, g->text.p, g->text.n);
    /* what is in both names was looked at in the one before, but for the last bytes */
    g->device = g->device || strstr(zf_out_text(&g->text), "uda:") ||
                strstr(zf_out_text(&g->name) + (same > 3 ? same - 3 : 0), "uda:");
    zf_out_cut(&g->last, same);
    zf_out_add(&g->last, zf_out_text(&g->name) + same, n - same);
    if (g->bytes.n > g->budget) {
        return zf_fail(
            err, ZF_E_LIMIT, ZF_OFF_NONE,
            "more than %llu bytes of memory are needed (limits pickle_memory, model_memory)",
            (unsigned long long)g->budget);
    }
    return zf_out_ok(&g->bytes, err) && zf_out_ok(&g->last, err) && zf_out_ok(&g->name, err) &&
           zf_out_ok(&g->text, err);
}

/* ---- one value as a text ---- */

static void agree_int_text(struct zf_out *o, int64_t i)
{
    if (i < 0)
        zf_out_str(o, "-");
    zf_out_dec(o, i < 0 ? -(uint64_t)i : (uint64_t)i);
}

static void agree_float_text(struct zf_out *o, double f)
{
    char text[40];

    if (isnan(f)) { /* whatever its sign */
        zf_out_str(o, "nan");
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, f);
        if (strtod(text, NULL) == f)
            break;
    }
    zf_out_str(o, text);
}

/* The one element of a tensor: a number, or its bytes where there is no C type for it. */
static void agree_element_text(struct zf_out *o, const uint8_t *p, enum zf_dtype dtype)
{
    union {
        int64_t i64;
        int32_t i32;
        double f64;
        float f32;
        uint64_t bits;
    } v = {.bits = 0};
    char text[24];

    memcpy(&v, p, zf_dtype_info(dtype)->bytes);
    if (dtype == ZF_DT_I64 || dtype == ZF_DT_I32) {
        agree_int_text(o, dtype == ZF_DT_I64 ? v.i64 : v.i32);
    } else if (dtype == ZF_DT_F64) {
        agree_float_text(o, v.f64);
    } else if (zf_can_cast(dtype, ZF_DT_F32)) {
        zf_cast(&v.f32, ZF_DT_F32, p, dtype, 1);
        agree_float_text(o, v.f32);
    } else {
        (void)snprintf(text, sizeof text, "0x%" PRIx64, v.bits);
        zf_out_str(o, text);
    }
}

/* *is stays false for a tensor that is not compared. */
static bool agree_tensor_text(struct zf_agree *g, struct zf_torch *t, const struct zf_pv *v,
                              bool *is, struct zf_err *err)
{
    struct zf_torch_tensor x;
    uint8_t p[16];
    uint64_t n = 1;

    if (zf_torch_kind(t, v) != ZF_TORCH_DENSE)
        return true;
    if (!zf_torch_tensor(t, v, &x, err))
        return false;
    for (uint32_t d = 0; d < x.ndim; d++)
        n = x.shape[d] == 1 ? n : 0;
    size_t bytes = zf_dtype_info(x.dtype)->bytes;
    if (n != 1 || bytes == 0 || bytes > sizeof(uint64_t) || !x.storage->src)
        return true;
    g->data = true;
    if (x.storage->known)
        memcpy(p, x.storage->known + x.off_elems * bytes, bytes);
    else if (!zf_source_pread(x.storage->src, p, bytes, x.off_elems * bytes, err))
        return false;
    agree_element_text(&g->text, p, x.dtype);
    *is = true;
    return true;
}

/* False for what is no plain value. */
static bool agree_plain_text(struct zf_out *o, const struct zf_pv *v)
{
    uint64_t n = 0;
    int64_t i;
    double f;
    bool yes;

    switch (zf_pv_kind(v)) {
    case ZF_PV_NONE:
        zf_out_str(o, "None");
        return true;
    case ZF_PV_BOOL:
        zf_out_str(o, zf_pv_bool(v, &yes) && yes ? "True" : "False");
        return true;
    case ZF_PV_INT:
        if (zf_pv_int(v, &i))
            agree_int_text(o, i);
        return true;
    case ZF_PV_FLOAT:
        if (zf_pv_float(v, &f))
            agree_float_text(o, f);
        return true;
    case ZF_PV_STR:
        zf_out_str(o, "'");
        zf_out_str(o, zf_pv_text(v, &n));
        zf_out_str(o, "'");
        return true;
    case ZF_PV_GLOBAL:
        zf_out_str(o, zf_pv_module(v));
        zf_out_str(o, ".");
        zf_out_str(o, zf_pv_name(v));
        return true;
    default:
        return false;
    }
}

/* ---- what is inside a value ---- */

struct agree_frame {
    const struct zf_pv *v;
    uint64_t next;
    size_t name; /* bytes of its name, with which those inside begin */
};

/* The value whose children count as those of v; NULL: it has none that are compared.  A set's order differs
 * between processes. */
static const struct zf_pv *agree_inside(const struct zf_pv *v)
{
    switch (zf_pv_kind(v)) {
    case ZF_PV_DICT:
    case ZF_PV_LIST:
    case ZF_PV_TUPLE:
        return v;
    case ZF_PV_CALL:
        break;
    default:
        return NULL;
    }
    if (zf_pv_is(v, NULL, "set") || zf_pv_is(v, NULL, "frozenset"))
        return NULL;
    if (zf_pv_is_map(v) || zf_pv_is_seq(v))
        return v;
    if (zf_pv_is_map(zf_pv_state(v)))
        return zf_pv_state(v);
    /* torch.Size((11, 5)) is looked into like the tuple */
    const struct zf_pv *args = zf_pv_args(v);
    return zf_pv_len(args) == 1 && zf_pv_is_seq(zf_pv_item(args, 0)) ? zf_pv_item(args, 0) : args;
}

static void agree_index(struct zf_out *o, int64_t i)
{
    zf_out_str(o, "[");
    agree_int_text(o, i);
    zf_out_str(o, "]");
}

/* Makes g->name that of child i of the frame; false: it is not compared. */
static bool agree_child_name(struct zf_agree *g, const struct agree_frame *f, uint64_t i,
                             zf_agree_free_fn *may_differ)
{
    const struct zf_pv *key = zf_pv_key(f->v, i);
    uint64_t n;
    int64_t number;

    zf_out_cut(&g->name, f->name);
    if (!zf_pv_is_map(f->v)) {
        agree_index(&g->name, (int64_t)i);
        return true;
    }
    if (zf_pv_kind(key) == ZF_PV_STR) {
        const char *p = zf_pv_text(key, &n);

        if (may_differ && may_differ(zf_out_text(&g->name), p))
            return false;
        zf_out_str(&g->name, ".");
        zf_out_str(&g->name, p);
        return true;
    }
    if (zf_pv_int(key, &number)) {
        agree_index(&g->name, number);
        return true;
    }
    return false;
}

/* Adds v, of g->name, if it is a single value; *inside: what else is to be looked into. */
static bool agree_one(struct zf_agree *g, struct zf_torch *t, const struct zf_pv *v,
                      const struct zf_pv **inside, struct zf_err *err)
{
    bool tensor = zf_torch_kind(t, v) != ZF_TORCH_NOT, is = false;

    zf_out_cut(&g->text, 0);
    if (tensor && !agree_tensor_text(g, t, v, &is, err))
        return false;
    is = is || (!tensor && agree_plain_text(&g->text, v));
    *inside = tensor || is ? NULL : agree_inside(v);
    return !is || agree_put(g, err);
}

/* Adds what is in v, of g->name. */
static bool agree_walk(struct zf_agree *g, struct zf_torch *t, const struct zf_pv *v,
                       zf_agree_free_fn *may_differ, struct zf_err *err)
{
    struct agree_frame stack[AGREE_DEPTH] = {{.name = g->name.n}};

    if (!agree_one(g, t, v, &stack[0].v, err))
        return false;
    for (size_t depth = stack[0].v ? 1 : 0; depth > 0;) {
        struct agree_frame *top = &stack[depth - 1];
        uint64_t i = top->next++;
        const struct zf_pv *child, *inside;

        if (i >= zf_pv_len(top->v)) {
            depth--;
            continue;
        }
        if (!agree_child_name(g, top, i, may_differ))
            continue;
        child = zf_pv_is_map(top->v) ? zf_pv_val(top->v, i) : zf_pv_item(top->v, i);
        if (!agree_one(g, t, child, &inside, err))
            return false;
        if (inside && depth < AGREE_DEPTH)
            stack[depth++] = (struct agree_frame){.v = inside, .name = g->name.n};
    }
    return true;
}

bool zf_agree_add(struct zf_agree *g, struct zf_torch *t, const char *key, const struct zf_pv *v,
                  zf_agree_free_fn *may_differ, bool needed, struct zf_err *err)
{
    const uint64_t at = g->bytes.n;

    if (!v)
        return true;
    zf_out_u8(&g->bytes, needed);
    zf_out_add(&g->bytes, key, strlen(key) + 1);
    zf_out_cut(&g->name, 0);
    zf_out_cut(&g->last, 0);
    zf_out_str(&g->name, key);
    zf_out_str(&g->last, key);
    g->device = g->device || strstr(key, "uda:");
    if (!agree_walk(g, t, v, may_differ, err))
        return false;
    struct agree_section *s = zf_vec_push(&g->section, err);
    if (s)
        *s = (struct agree_section){at, g->bytes.n - at};
    return s && zf_out_ok(&g->bytes, err);
}

bool zf_agree_read_data(const struct zf_agree *g)
{
    return g->data;
}

bool zf_agree_has_device(const struct zf_agree *g)
{
    return g->device;
}
