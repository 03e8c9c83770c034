/* SPDX-License-Identifier: Apache-2.0 */
/* A sharded-state factory splits some parameters along dimension 0 before they are saved, so that each part
 * is sharded separately: the halves of a gated linear unit, and the fused outputs of the projection and the
 * convolution of Mamba and gated delta nets.  In the model the parts are concatenated in the order below.
 * A number that each part has (its step) becomes one number of the parameter if it is equal in all parts.
 * Source: megatron/core/transformer/mlp.py apply_swiglu_sharded_factory (singleton_local_shards, 0.15 …
 * 0.19), megatron/core/ssm/mamba_mixer.py and gated_delta_net.py sharded_state_dict (0.9 … 0.19). */
#include "steps.h"

#include <string.h>

#include <zf/assemble/cut.h>
#include <zf/base/num.h>
#include <zf/base/out.h>

enum { PARTS_MAX = 6 };

static const struct parts_kind {
    const char *whole; /* last components of the joined parameter's name */
    const char *end[PARTS_MAX];
    uint32_t n;
} parts_kinds[] = {
    {"weight", {"_w", "_v"}, 2},
    {"bias", {"_w", "_v"}, 2},
    {"in_proj.weight", {".z", ".x", ".B", ".C", ".dt"}, 5},
    {"in_proj.bias", {".z", ".x", ".B", ".C", ".dt"}, 5},
    {"conv1d.weight", {".x", ".B", ".C"}, 3},
    {"conv1d.bias", {".x", ".B", ".C"}, 3},
    {"in_proj.weight", {".query", ".key", ".value", ".z", ".beta", ".alpha"}, 6},
    {"conv1d.weight", {".query", ".key", ".value"}, 3},
    {"conv1d.bias", {".query", ".key", ".value"}, 3},
};
#define PARTS_KINDS (sizeof parts_kinds / sizeof *parts_kinds)

/* Is the end of the name exactly these components? */
static bool parts_is_whole(struct mg_text t, const char *whole)
{
    size_t n = strlen(whole);

    return mg_text_ends(t, whole) && (t.n == n || t.p[t.n - n - 1] == '.');
}

/* A parameter in parts. */
struct parts {
    const struct parts_kind *kind;
    struct mg_text whole;   /* its name */
    size_t part[PARTS_MAX]; /* indices in the list */
    uint64_t rows;          /* rows of all parts together */
};

/* The parameter of the same state named `whole` + `end`; NULL: there is none, or more than one. */
static struct mg_param *parts_one(struct mg_save *s, const struct mg_param *like,
                                  struct mg_text whole, const char *end, struct zf_out *name)
{
    size_t found;
    struct mg_param *p;

    name->n = 0;
    zf_out_add(name, whole.p, whole.n);
    zf_out_str(name, end);
    p = mg_save_named(s, like->state, (struct mg_text){zf_out_text(name), name->n}, &found);
    return found == 1 ? p : NULL;
}

/* Is `first` the first part of a parameter of that kind? */
static bool parts_begin(const struct mg_param *first, const struct parts_kind *kind,
                        struct mg_text *whole)
{
    *whole = first->name;
    if (!mg_text_ends(*whole, kind->end[0]))
        return false;
    whole->n -= strlen(kind->end[0]);
    return parts_is_whole(*whole, kind->whole);
}

/* Are all parts present, with equal dtypes and shapes except for dimension 0, and is the joined one not listed? */
static bool parts_find(struct mg_save *s, size_t first, struct zf_out *name, struct parts *m)
{
    const struct mg_param *f = &s->param.at[first];
    size_t found;

    if (mg_save_named(s, f->state, m->whole, &found))
        return false;
    for (uint32_t i = 0; i < m->kind->n; i++) {
        const struct mg_param *p = parts_one(s, f, m->whole, m->kind->end[i], name);

        if (!p || p->is_part || p->type.dtype != f->type.dtype || p->type.ndim != f->type.ndim ||
            (p->type.ndim > 0 && (!zf_shape_equal(p->type.ndim - 1, p->type.shape + 1,
                                                  f->type.ndim - 1, f->type.shape + 1) ||
                                  !zf_add(m->rows, p->type.shape[0], &m->rows))))
            return false;
        m->part[i] = (size_t)(p - s->param.at);
    }
    return true;
}

/* Is a number, such as the step, equal in all parts? */
static bool parts_one_number(struct mg_save *s, const struct parts *m, bool *same,
                             struct zf_err *err)
{
    struct zf_copy_check check = {.all = zf_build_records_copies(s->b)};
    struct zf_draft *first = NULL;
    bool ok = zf_build_mark(s->b, err);
    bool marked = ok;

    *same = true;
    for (uint32_t i = 0; ok && *same && i < m->kind->n; i++) {
        const struct mg_param *p = &s->param.at[m->part[i]];
        struct zf_draft *d = zf_build_hidden(s->b, p->name.p, p->name.n, p->type, err);

        ok = d && zf_draft_part(d, 0, 1, p->of, p->first, err) &&
             (!first || zf_cut_same(&check, first, d, same, err));
        first = first ? first : d;
    }
    if (marked)
        zf_build_undo(s->b);
    ok = ok && (!*same || zf_copy_check_note(&check, s->b, err));
    zf_copy_check_fini(&check);
    return ok;
}

static bool parts_fill(struct mg_save *s, const struct parts *m, struct zf_draft *d,
                       struct zf_err *err)
{
    uint64_t at = 0, n, total = 1;

    if (!zf_elems(zf_draft_type(d).ndim, zf_draft_type(d).shape, &total)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the parts of \"%.*s\" are too large",
                       (int)m->whole.n, m->whole.p);
    }
    for (uint32_t i = 0; i < m->kind->n; i++) {
        struct mg_param *p = &s->param.at[m->part[i]];

        if (!zf_elems(p->type.ndim, p->type.shape, &n) ||
            (at + n <= total && !zf_draft_part(d, at, n, p->of, p->first, err)))
            return false;
        p->is_part = true;
        at += n;
    }
    return true;
}

static bool parts_join(struct mg_save *s, const struct parts *m, struct zf_err *err)
{
    struct mg_param whole = s->param.at[m->part[0]];
    uint64_t *shape;
    size_t *part;

    if (whole.type.ndim == 0) {
        bool same;

        if (!parts_one_number(s, m, &same, err) || !same)
            return err->code == ZF_OK;
    }
    shape = zf_arena_get(s->arena, whole.type.ndim, sizeof *shape, err);
    part = shape ? zf_arena_get(s->arena, m->kind->n, sizeof *part, err) : NULL;
    if (!part)
        return false;
    memcpy(part, m->part, m->kind->n * sizeof *part);
    memcpy(shape, whole.type.shape, whole.type.ndim * sizeof *shape);
    if (whole.type.ndim > 0)
        shape[0] = m->rows;
    whole.type.shape = shape;
    whole.name = m->whole;
    whole.from = NULL;
    whole.first = 0;
    whole.part = part;
    whole.n_parts = m->kind->n;
    whole.of = zf_build_hidden(s->b, m->whole.p, m->whole.n, whole.type, err);
    return whole.of && parts_fill(s, m, whole.of, err) && mg_save_param(s, &whole, err);
}

bool mg_parts_join(struct mg_save *s, struct zf_err *err)
{
    zf_auto(out) struct zf_out name = {0};

    for (size_t i = 0, n = s->param.n; i < n; i++) {
        for (size_t k = 0; k < PARTS_KINDS; k++) {
            struct parts m = {.kind = &parts_kinds[k]};

            if (parts_begin(&s->param.at[i], m.kind, &m.whole) &&
                ((s->n_named < n && !mg_save_index(s, err)) ||
                 (parts_find(s, i, &name, &m) && !parts_join(s, &m, err))))
                return false;
        }
    }
    return zf_out_ok(&name, err);
}
