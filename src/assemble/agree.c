/* SPDX-License-Identifier: Apache-2.0 */
/* Compares values that the files of all ranks should have in common.  A value is flattened into pairs of name and text,
 * one for each number or text inside it.  Consecutive names are long and similar
 * ("param_shapes[0].model.layers.7.mlp.up_proj.weight[1]"), and nearly all lists are equal: so they are stored as bytes,
 * each name as its difference from the one before, and turned into pairs only where the bytes differ. */
#include <zf/assemble/agree.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/arena.h>
#include <zf/base/bytes.h>
#include <zf/base/out.h>
#include <zf/base/vec.h>
#include <zf/model/cast.h>

#define AGREE_DEPTH 32

/* The bytes of one zf_agree_add: a byte, whether the key is required; the key with its zero byte; and for each value the
 * number of leading bytes its name shares with the name before (at first, the key), the rest of its name, and its text. */
struct agree_section {
    uint64_t at, n; /* range of zf_agree.bytes */
};

struct zf_agree {
    uint64_t budget;
    char *file;
    struct zf_out bytes;
    zf_vec(struct agree_section) section;
    struct zf_out name, text; /* of the current value */
    struct zf_out last;       /* the name added last */
    bool data, device;        /* see zf_agree_read_data, zf_agree_has_device */
};

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
    /* the shared part of the name was searched with the name before, except for its last bytes */
    g->device = g->device || strstr(zf_out_text(&g->text), "uda:") ||
                strstr(zf_out_text(&g->name) + (same > 3 ? same - 3 : 0), "uda:");
    zf_out_cut(&g->last, same);
    zf_out_add(&g->last, zf_out_text(&g->name) + same, n - same);
    if (g->bytes.n > g->budget) {
        return zf_fail_limit(
            err, ZF_LIMIT_pickle_memory, ZF_OFF_NONE,
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

    if (isnan(f)) { /* of either sign */
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

/* The text of a tensor's only element: a number, or its bytes if there is no C type for it. */
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

/* Leaves *is false for a tensor that is not compared. */
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

/* False: not a plain value. */
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

/* ---- containers ---- */

struct agree_frame {
    const struct zf_pv *v;
    uint64_t next;
    size_t name; /* length of its name, the prefix of its children's names */
};

/* The value whose children count as those of v; NULL: none are compared.  Sets are not, because their order
 * differs between processes. */
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
    /* torch.Size((11, 5)) is compared as the tuple */
    const struct zf_pv *args = zf_pv_args(v);
    return zf_pv_len(args) == 1 && zf_pv_is_seq(zf_pv_item(args, 0)) ? zf_pv_item(args, 0) : args;
}

static void agree_index(struct zf_out *o, int64_t i)
{
    zf_out_str(o, "[");
    agree_int_text(o, i);
    zf_out_str(o, "]");
}

/* Sets g->name to the name of child i of the frame; false: the child is not compared. */
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

/* Adds v under g->name if it is a single value; else *inside is the container to walk. */
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

/* Adds all values in v, with names that begin with g->name. */
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

/* ---- comparing: sections with equal bytes are equal; the pairs of the others are sorted by name and compared in
 * order, so that the message is about the first name whose texts differ ---- */

struct agree_pair {
    const char *name, *text;
    bool needed;
};

/* A section to compare; its values are unpacked if its bytes differ. */
struct agree_part {
    const char *key;
    const struct agree_section *of;
};
struct agree_side {
    const struct zf_agree *list;
    struct agree_part *part; /* [list->section.n] sorted by key */
    struct zf_arena *arena;
    zf_vec(struct agree_pair) pair;
};

static int agree_by_key(const void *pa, const void *pb)
{
    const struct agree_part *a = pa, *b = pb;
    int c = strcmp(a->key, b->key);

    return c ? c : (a->of > b->of) - (a->of < b->of);
}

static bool agree_side_init(struct agree_side *s, const struct zf_agree *list, struct zf_err *err)
{
    const size_t n = list->section.n;

    s->list = list;
    s->part = malloc((n + 1) * sizeof *s->part);
    s->arena = zf_arena_new(list->budget, err);
    if (!s->part)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const struct agree_section *of = &list->section.at[i];

        s->part[i] = (struct agree_part){list->bytes.p + of->at + 1, of};
    }
    qsort(s->part, n, sizeof *s->part, agree_by_key);
    return s->arena != NULL;
}

static void agree_side_fini(struct agree_side *s)
{
    free(s->part);
    zf_arena_free(s->arena);
    zf_vec_fini(&s->pair);
}

/* Unpacks the values of a section into pairs. */
static bool agree_unfold(struct agree_side *s, const struct agree_part *part, struct zf_err *err)
{
    const char *at = s->list->bytes.p + part->of->at;
    struct zf_bytes b = zf_bytes_of(at, part->of->n);
    const bool needed = zf_bytes_u8(&b) != 0;
    zf_auto(out) struct zf_out name = {0};

    zf_out_str(&name, part->key);
    (void)zf_bytes_take(&b, strlen(part->key) + 1);
    while (zf_bytes_left(&b) > 0) {
        zf_out_cut(&name, zf_bytes_var(&b));
        uint64_t n;
        const char *more = zf_bytes_counted(&b, &n);
        zf_out_add(&name, more, n);
        more = zf_bytes_counted(&b, &n);
        const char *text = zf_arena_str(s->arena, more, n, err);
        const char *copy = text ? zf_arena_str(s->arena, zf_out_text(&name), name.n, err) : NULL;
        struct agree_pair *p = copy ? zf_vec_push(&s->pair, err) : NULL;

        if (!p || !zf_out_ok(&name, err))
            return false;
        *p = (struct agree_pair){.name = copy, .text = text, .needed = needed};
    }
    return true;
}

static bool agree_same_section(const struct agree_side *a, const struct agree_section *i,
                               const struct agree_side *b, const struct agree_section *k)
{
    return i->n == k->n &&
           memcmp(a->list->bytes.p + i->at, b->list->bytes.p + k->at, (size_t)i->n) == 0;
}

/* Unpacks the sections that differ.  shared: except those that only one of the files has. */
static bool agree_unfold_others(struct agree_side *a, struct agree_side *b, bool shared,
                                struct zf_err *err)
{
    const size_t n = a->list->section.n, m = b->list->section.n;

    for (size_t i = 0, k = 0; i < n || k < m;) {
        const struct agree_part *p = i < n ? &a->part[i] : NULL, *q = k < m ? &b->part[k] : NULL;
        const int c = !p ? 1 : !q ? -1 : strcmp(p->key, q->key);

        if (c == 0 ? !agree_same_section(a, p->of, b, q->of) : !shared) {
            if ((c <= 0 && !agree_unfold(a, p, err)) || (c >= 0 && !agree_unfold(b, q, err)))
                return false;
        }
        i += c <= 0;
        k += c >= 0;
    }
    return true;
}

static int agree_by_name(const void *pa, const void *pb)
{
    const struct agree_pair *a = pa, *b = pb;
    int c = strcmp(a->name, b->name);

    return c ? c : strcmp(a->text, b->text);
}

/* Handles a name that only one of the files has. */
static bool agree_one_sided(const struct zf_agree *g, const struct zf_agree *first,
                            const struct agree_pair *p, bool mine, struct zf_err *err)
{
    if (mine) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "%.120s is %.40s, but is not in \"%.100s\": two saves are mixed", p->name, p->text,
                first->file);
    } else {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "%.120s is missing, but %.40s in \"%.100s\": two saves are mixed", p->name, p->text,
                first->file);
    }
    return zf_err_in(err, "%s", g->file);
}

/* Compares both sorted lists of pairs. */
static bool agree_compare_pairs(struct agree_side *mine, struct agree_side *other, bool shared,
                                struct zf_err *err)
{
    const struct zf_agree *g = mine->list, *first = other->list;

    if (mine->pair.n > 0)
        qsort(mine->pair.at, mine->pair.n, sizeof *mine->pair.at, agree_by_name);
    if (other->pair.n > 0)
        qsort(other->pair.at, other->pair.n, sizeof *other->pair.at, agree_by_name);
    for (size_t i = 0, k = 0; i < mine->pair.n || k < other->pair.n;) {
        const struct agree_pair *a = i < mine->pair.n ? &mine->pair.at[i] : NULL;
        const struct agree_pair *b = k < other->pair.n ? &other->pair.at[k] : NULL;
        int c = !a ? 1 : !b ? -1 : strcmp(a->name, b->name);

        if (c != 0 && !shared && (c < 0 ? a : b)->needed)
            return agree_one_sided(g, first, c < 0 ? a : b, c < 0, err);
        if (c == 0 && strcmp(a->text, b->text) != 0) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "%.110s is %.40s, but %.40s in \"%.90s\": two saves are mixed", a->name,
                    a->text, b->text, first->file);
            return zf_err_in(err, "%s", g->file);
        }
        i += c <= 0;
        k += c >= 0;
    }
    return true;
}

bool zf_agree_compare(const struct zf_agree *g, const struct zf_agree *first, bool shared,
                      struct zf_err *err)
{
    struct agree_side mine = {0}, other = {0};

    if (g->bytes.n == first->bytes.n &&
        (g->bytes.n == 0 || memcmp(g->bytes.p, first->bytes.p, g->bytes.n) == 0))
        return true;
    bool ok = agree_side_init(&mine, g, err) && agree_side_init(&other, first, err) &&
              agree_unfold_others(&mine, &other, shared, err) &&
              agree_compare_pairs(&mine, &other, shared, err);
    agree_side_fini(&mine);
    agree_side_fini(&other);
    return ok;
}
