/* SPDX-License-Identifier: Apache-2.0 */
/* A value is flattened into pairs of name and text, a pair a number or text inside it.  Both lists
 * are sorted by name and gone through side by side, so the sentence is about the first name
 * whose texts differ. */
#include <zf/assemble/agree.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/vec.h>
#include <zf/model/cast.h>

#define AGREE_DEPTH 32

struct agree_pair {
    const char *name, *text;
    bool needed;
};

struct zf_agree {
    struct zf_arena *arena;
    const char *file;
    zf_vec(struct agree_pair) pair;
    bool sorted, data;
};

struct zf_agree *zf_agree_new(const char *file, uint64_t budget, struct zf_err *err)
{
    struct zf_agree *g = calloc(1, sizeof *g);

    if (!g) {
        zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    g->arena = zf_arena_new(budget, err);
    g->file = g->arena ? zf_arena_str(g->arena, file, strlen(file), err) : NULL;
    if (!g->file) {
        zf_agree_free(g);
        return NULL;
    }
    return g;
}

void zf_agree_free(struct zf_agree *g)
{
    if (g) {
        zf_arena_free(g->arena);
        zf_vec_fini(&g->pair);
        free(g);
    }
}

static bool agree_pair_add(struct zf_agree *g, const char *name, const char *text, bool needed,
                           struct zf_err *err)
{
    if (!zf_vec_room(&g->pair, 1, err)) {
        return false;
    }
    g->pair.at[g->pair.n++] = (struct agree_pair){.name = name, .text = text, .needed = needed};
    return text != NULL;
}

/* ---- one value as a text ---- */

static const char *agree_float_text(struct zf_arena *a, double f, struct zf_err *err)
{
    char text[40];

    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, f);
        if (strtod(text, NULL) == f) {
            break;
        }
    }
    return zf_arena_str(a, text, strlen(text), err);
}

/* The one element of a tensor: a number, or its bytes where there is no C type for it. */
static const char *agree_element_text(struct zf_arena *a, const uint8_t *p, enum zf_dtype dtype,
                                      struct zf_err *err)
{
    union {
        int64_t i64;
        int32_t i32;
        double f64;
        float f32;
        uint64_t bits;
    } v = {.bits = 0};

    memcpy(&v, p, zf_dtype_info(dtype)->bytes);
    if (dtype == ZF_DT_I64 || dtype == ZF_DT_I32) {
        return zf_arena_fmt(a, err, "%" PRId64, dtype == ZF_DT_I64 ? v.i64 : v.i32);
    }
    if (dtype == ZF_DT_F64) {
        return agree_float_text(a, v.f64, err);
    }
    if (zf_can_cast(dtype, ZF_DT_F32)) {
        zf_cast(&v.f32, ZF_DT_F32, p, dtype, 1);
        return agree_float_text(a, v.f32, err);
    }
    return zf_arena_fmt(a, err, "0x%" PRIx64, v.bits);
}

/* *out stays NULL for a tensor that is not compared. */
static bool agree_tensor_text(struct zf_agree *g, struct zf_torch *t, const struct zf_pv *v,
                              const char **out, struct zf_err *err)
{
    struct zf_torch_tensor x;
    uint8_t p[16];
    uint64_t n = 1;

    if (zf_torch_kind(t, v) != ZF_TORCH_DENSE) {
        return true;
    }
    if (!zf_torch_tensor(t, v, &x, err)) {
        return false;
    }
    for (uint32_t d = 0; d < x.ndim; d++) {
        n = x.shape[d] == 1 ? n : 0;
    }
    size_t bytes = zf_dtype_info(x.dtype)->bytes;
    if (n != 1 || bytes == 0 || bytes > sizeof(uint64_t) || !x.storage->src) {
        return true;
    }
    g->data = true;
    if (x.storage->known) {
        memcpy(p, x.storage->known + x.off_elems * bytes, bytes);
    } else if (!zf_source_pread(x.storage->src, p, bytes, x.off_elems * bytes, err)) {
        return false;
    }
    *out = agree_element_text(g->arena, p, x.dtype, err);
    return *out != NULL;
}

/* *out stays NULL for what is no plain value. */
static bool agree_plain_text(struct zf_agree *g, const struct zf_pv *v, const char **out,
                             struct zf_err *err)
{
    uint64_t n = 0;
    int64_t i;
    double f;
    bool yes;

    switch (zf_pv_kind(v)) {
    case ZF_PV_NONE:
        *out = "None";
        return true;
    case ZF_PV_BOOL:
        *out = zf_pv_bool(v, &yes) && yes ? "True" : "False";
        return true;
    case ZF_PV_INT:
        *out = zf_pv_int(v, &i) ? zf_arena_fmt(g->arena, err, "%" PRId64, i) : "";
        break;
    case ZF_PV_FLOAT:
        *out = zf_pv_float(v, &f) ? agree_float_text(g->arena, f, err) : "";
        break;
    case ZF_PV_STR: {
        const char *p = zf_pv_text(v, &n);

        *out = zf_arena_fmt(g->arena, err, "'%s'", p);
        break;
    }
    case ZF_PV_GLOBAL:
        *out = zf_arena_fmt(g->arena, err, "%s.%s", zf_pv_module(v), zf_pv_name(v));
        break;
    default:
        return true;
    }
    return *out != NULL;
}

/* ---- what is inside a value ---- */

struct agree_frame {
    const struct zf_pv *v;
    uint64_t next;
    const char *name;
};

/* What is looked into for the children of v; NULL: it has none that are compared.  The order of a
 * set is another one in every process. */
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
    if (zf_pv_is(v, NULL, "set") || zf_pv_is(v, NULL, "frozenset")) {
        return NULL;
    }
    if (zf_pv_is_map(v) || zf_pv_is_seq(v)) {
        return v;
    }
    if (zf_pv_is_map(zf_pv_state(v))) {
        return zf_pv_state(v);
    }
    /* torch.Size((11, 5)) is looked into like the tuple */
    const struct zf_pv *args = zf_pv_args(v);
    return zf_pv_len(args) == 1 && zf_pv_is_seq(zf_pv_item(args, 0)) ? zf_pv_item(args, 0) : args;
}

/* The name of child i; *skip: it is not compared. */
static const char *agree_child_name(struct zf_agree *g, const struct agree_frame *f, uint64_t i,
                                    zf_agree_free_fn *may_differ, bool *skip, struct zf_err *err)
{
    const struct zf_pv *key = zf_pv_key(f->v, i);
    uint64_t n;
    int64_t number;

    *skip = false;
    if (!zf_pv_is_map(f->v)) {
        return zf_arena_fmt(g->arena, err, "%s[%" PRIu64 "]", f->name, i);
    }
    if (zf_pv_kind(key) == ZF_PV_STR) {
        const char *p = zf_pv_text(key, &n);

        *skip = may_differ && may_differ(f->name, p);
        return *skip ? "" : zf_arena_fmt(g->arena, err, "%s.%s", f->name, p);
    }
    if (zf_pv_int(key, &number)) {
        return zf_arena_fmt(g->arena, err, "%s[%" PRId64 "]", f->name, number);
    }
    *skip = true;
    return "";
}

/* Adds v if it is a single value; *inside: what else is to be looked into. */
static bool agree_one(struct zf_agree *g, struct zf_torch *t, const char *name,
                      const struct zf_pv *v, bool needed, const struct zf_pv **inside,
                      struct zf_err *err)
{
    const char *text = NULL;
    bool tensor = zf_torch_kind(t, v) != ZF_TORCH_NOT;

    if (!(tensor ? agree_tensor_text(g, t, v, &text, err) : agree_plain_text(g, v, &text, err))) {
        return false;
    }
    *inside = tensor || text ? NULL : agree_inside(v);
    return !text || agree_pair_add(g, name, text, needed, err);
}

bool zf_agree_add(struct zf_agree *g, struct zf_torch *t, const char *key, const struct zf_pv *v,
                  zf_agree_free_fn *may_differ, bool needed, struct zf_err *err)
{
    const char *top_name = v ? zf_arena_str(g->arena, key, strlen(key), err) : NULL;
    struct agree_frame stack[AGREE_DEPTH] = {{.name = top_name}};

    if (!top_name || !agree_one(g, t, top_name, v, needed, &stack[0].v, err)) {
        return !v;
    }
    for (size_t depth = stack[0].v ? 1 : 0; depth > 0;) {
        struct agree_frame *top = &stack[depth - 1];
        uint64_t i = top->next++;
        const struct zf_pv *child, *inside;
        bool skip;

        if (i >= zf_pv_len(top->v)) {
            depth--;
            continue;
        }
        const char *name = agree_child_name(g, top, i, may_differ, &skip, err);
        if (!name) {
            return false;
        }
        child = zf_pv_is_map(top->v) ? zf_pv_val(top->v, i) : zf_pv_item(top->v, i);
        if (skip) {
            continue;
        }
        if (!agree_one(g, t, name, child, needed, &inside, err)) {
            return false;
        }
        if (inside && depth < AGREE_DEPTH) {
            stack[depth++] = (struct agree_frame){.v = inside, .name = name};
        }
    }
    return true;
}

bool zf_agree_read_data(const struct zf_agree *g)
{
    return g->data;
}

/* ---- comparing ---- */

static int agree_by_name(const void *pa, const void *pb)
{
    const struct agree_pair *a = pa, *b = pb;
    int c = strcmp(a->name, b->name);

    return c ? c : strcmp(a->text, b->text);
}

static void agree_sort(struct zf_agree *g)
{
    if (!g->sorted && g->pair.n > 0) {
        qsort(g->pair.at, g->pair.n, sizeof *g->pair.at, agree_by_name);
    }
    g->sorted = true;
}

/* Only one of the files names it. */
static bool agree_one_sided(const struct zf_agree *g, const struct zf_agree *first,
                            const struct agree_pair *p, bool mine, struct zf_err *err)
{
    if (mine) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "%.120s is %.40s, but is not in \"%.100s\": files of different saves", p->name,
                p->text, first->file);
    } else {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "%.120s is missing, but %.40s in \"%.100s\": files of different saves", p->name,
                p->text, first->file);
    }
    return zf_err_in(err, "%s", g->file);
}

bool zf_agree_compare(struct zf_agree *g, struct zf_agree *first, bool shared, struct zf_err *err)
{
    agree_sort(g);
    agree_sort(first);
    for (size_t i = 0, k = 0; i < g->pair.n || k < first->pair.n;) {
        const struct agree_pair *a = i < g->pair.n ? &g->pair.at[i] : NULL;
        const struct agree_pair *b = k < first->pair.n ? &first->pair.at[k] : NULL;
        int c = !a ? 1 : !b ? -1 : strcmp(a->name, b->name);

        if (c != 0 && !shared && (c < 0 ? a : b)->needed) {
            return agree_one_sided(g, first, c < 0 ? a : b, c < 0, err);
        }
        if (c == 0 && strcmp(a->text, b->text) != 0) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "%.110s is %.40s, but %.40s in \"%.90s\": files of different saves", a->name,
                    a->text, b->text, first->file);
            return zf_err_in(err, "%s", g->file);
        }
        i += c <= 0;
        k += c >= 0;
    }
    return true;
}
