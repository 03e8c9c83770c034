/* SPDX-License-Identifier: Apache-2.0 */
#include "ask.h"

#include <stdlib.h>
#include <string.h>

#include <zf/model/build.h>

/* Two tensors are alike if they are equal at this many positions, in this many bytes at each. */
#define SAMPLES 64
#define SAMPLE_BYTES (64u << 10)

const struct var *ask_var(const struct plan *p, const char *name)
{
    for (size_t i = 0; i < p->var.n; i++)
        if (strcmp(p->var.at[i].name, name) == 0)
            return &p->var.at[i];
    return NULL;
}

bool ask_size(void *ctx, const char *name, uint64_t *out, struct zf_err *err)
{
    const struct var *v = ask_var(ctx, name);

    *out = 0;
    if (!v || !v->size)
        return true;
    return (zf_json_u64(v->value, out) && *out > 0) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the size %.40s is not a number of elements",
                   name);
}

/* Adds a setting or tensor to those the expression has used; after about 200 characters no more are added. */
static void ask_from(struct plan *p, const char *file, const char *prefix, const char *path)
{
    struct zf_err ignored;
    char *one = zf_arena_fmt(p->a, &ignored, "%s%s%s%s%s", file, *file ? ": " : "", prefix,
                             *prefix ? "." : "", path);

    if (!one || (p->from && (strstr(p->from, one) || strlen(p->from) > 200)))
        return;
    p->from = p->from ? zf_arena_fmt(p->a, &ignored, "%s, %s", p->from, one) : one;
}

static json_t *ask_name(void *ctx, const char *name)
{
    struct plan *p = ctx;
    const struct var *v = ask_var(p, name);
    json_t *found = NULL;

    if (v) {
        if (v->from && *v->from)
            ask_from(p, "", "", v->from);
        return json_incref(v->value);
    }
    for (uint32_t i = 0; i < p->loops.n; i++)
        if (p->loops.at[i].open && strcmp(p->loops.at[i].name, name) == 0)
            return json_integer((json_int_t)p->loops.at[i].value);
    if (strncmp(name, "hf.", 3) == 0) {
        found = p->outside ? said_find(p->outside, "", name + 3) : NULL;
        if (found)
            ask_from(p, "config.json", "", name + 3);
    } else if (p->root && strncmp(name, "top.", 4) == 0) {
        found = said_find(p->root, "", name + 4);
        if (found)
            ask_from(p, p->file, "", name + 4);
    } else if (p->root) {
        found = said_find(p->root, p->prefix, name);
        if (found)
            ask_from(p, p->file, p->prefix, name);
    }
    return found ? json_incref(found) : json_null();
}

/* ---- tensors ---------------------------------------------------------------------------------- */

static const struct zf_tensor *ask_tensor_of(struct plan *p, const char *name, struct zf_err *err)
{
    zf_auto(out) struct zf_out full = {.p = NULL};
    uint32_t bits;

    if (!names_loops(&p->loops, name, strlen(name), &bits, err) ||
        !names_fill(&p->loops, name, strlen(name), &full))
        return NULL;
    const uint32_t i = given_find(&p->src, zf_out_text(&full));
    return i == UINT32_MAX ? NULL : given_tensor(&p->src, i);
}

static bool ask_has(struct plan *p, const char *name, struct zf_err *err)
{
    const size_t n = strlen(name);

    return n && name[n - 1] == '*' ? given_begins(&p->src, name, n - 1)
                                   : ask_tensor_of(p, name, err) != NULL;
}

/* The number of tensors whose names have {…} = 0, 1, …, without a gap. */
static uint64_t ask_count(const struct plan *p, const char *name)
{
    const char *open = strchr(name, '{'), *end = open ? strchr(open, '}') : NULL;
    uint64_t n = 0;

    while (end) {
        zf_auto(out) struct zf_out full = {.p = NULL};

        zf_out_add(&full, name, (size_t)(open - name));
        zf_out_dec(&full, n);
        zf_out_str(&full, end + 1);
        const size_t len = full.n;
        const bool some = len && full.p[len - 1] == '*';
        if (some ? !given_begins(&p->src, full.p, len - 1)
                 : given_find(&p->src, zf_out_text(&full)) == UINT32_MAX)
            break;
        n++;
    }
    return n;
}

/* *same_out: are bytes [off, off + n) of a and b equal, or, if b is NULL, are those of a zero? */
static bool ask_compare(const struct zf_tensor *a, const struct zf_tensor *b, uint64_t off,
                        size_t n, bool *same_out, struct zf_err *err)
{
    zf_auto(mem) char *x = calloc(2, n ? n : 1);

    if (!x)
        return zf_fail_sys(err, "compare tensors");
    if (!zf_map_read(a->data, x, n, off, err) || (b && !zf_map_read(b->data, x + n, n, off, err)))
        return false;
    *same_out = memcmp(x, x + n, n) == 0;
    return true;
}

/* Compares at positions `step` bytes apart.  b NULL: is a all zero? */
static bool ask_same(const struct zf_tensor *a, const struct zf_tensor *b, uint64_t step,
                     bool *same_out, struct zf_err *err)
{
    const uint64_t size = zf_map_size(a->data);

    *same_out =
        !b || (a->dtype == b->dtype && zf_shape_equal(a->ndim, a->shape, b->ndim, b->shape));
    for (uint64_t at = 0; *same_out && at < size; at += step) {
        const uint64_t n = size - at < SAMPLE_BYTES ? size - at : SAMPLE_BYTES;

        if (!ask_compare(a, b, at, (size_t)n, same_out, err))
            return false;
    }
    return true;
}

/* Compares a pair of tensors.  whole: compares every byte, or returns null if that is too much to read. */
static json_t *ask_pair(struct plan *p, bool whole, const char *names, struct zf_err *err)
{
    const char *gap = strchr(names, ' ');
    char *first = zf_arena_str(p->a, names, gap ? (size_t)(gap - names) : strlen(names), err);
    const struct zf_tensor *a = first ? ask_tensor_of(p, first, err) : NULL;
    const struct zf_tensor *b = gap ? ask_tensor_of(p, gap + 1, err) : NULL;
    bool same = false;

    if (!first)
        return NULL;
    if (!a || (gap && !b))
        return json_false();
    const uint64_t size = zf_map_size(a->data);
    const uint64_t far = size / SAMPLES > SAMPLE_BYTES ? size / SAMPLES : SAMPLE_BYTES;
    if (!ask_same(a, b, far, &same, err) ||
        (whole && same && far > SAMPLE_BYTES && size <= p->lim->compare_bytes &&
         !ask_same(a, b, SAMPLE_BYTES, &same, err))) {
        /* An unreadable or lost value is unknown; if the file was replaced since opening, that is an error. */
        if (err->code == ZF_E_STALE)
            p->files->why = *err;
        return err->code == ZF_E_NOMEM ? NULL : json_null();
    }
    return whole && same && far > SAMPLE_BYTES && size > p->lim->compare_bytes ? json_null()
                                                                               : json_boolean(same);
}

static json_t *ask_tensor(void *ctx, const char *what, const char *name, int64_t k,
                          struct zf_err *err)
{
    struct plan *p = ctx;
    const struct zf_tensor *t;

    zf_err_clear(err);
    if (strcmp(what, "stripped") == 0)
        return json_boolean(p->src.stripped > 0);
    if (strcmp(what, "count") == 0)
        return json_integer((json_int_t)ask_count(p, name));
    if (strcmp(what, "same") == 0 || strcmp(what, "alike") == 0 || strcmp(what, "zero") == 0)
        return ask_pair(p, *what != 'a', name, err);
    if (strcmp(what, "has") == 0) {
        const bool has = ask_has(p, name, err);

        return err->code == ZF_OK ? json_boolean(has) : NULL;
    }
    t = ask_tensor_of(p, name, err);
    if (err->code != ZF_OK)
        return NULL;
    if (t && strcmp(what, "ndim") == 0)
        return json_integer(t->ndim);
    if (!t || k < 0 || k >= t->ndim || t->shape[k] > INT64_MAX)
        return json_null();
    ask_from(p, "shape", "", t->name);
    return json_integer((json_int_t)t->shape[k]);
}

struct expr_ask ask_begin(struct plan *p)
{
    p->from = NULL;
    return (struct expr_ask){.name = ask_name,
                             .tensor = ask_tensor,
                             .ctx = p,
                             .file = p->line->of->name,
                             .text = p->line->of->p};
}
