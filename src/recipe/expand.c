/* SPDX-License-Identifier: Apache-2.0 */
/* Expands rules and drops for every value of their indices. */
#include "plan.h"

#include <fnmatch.h>
#include <string.h>

#include <zf/base/num.h>

#include "ask.h"

/* A source that is being transformed for a target. */
struct taken {
    uint32_t tensor;
    struct axes axes;
};

static bool expand_cut(struct plan *p, const struct step *s, struct axes *x, struct zf_err *err)
{
    const struct expr_ask ask = ask_begin(p);

    if (s->n_cuts > x->n) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%u axes are cut, but the tensor has %u",
                       s->n_cuts, x->n);
    }
    for (uint32_t k = 0; k < s->n_cuts; k++) {
        const struct cut *c = &s->cut[k];
        uint64_t from = 0, to = axis_size(&x->at[k]);

        if ((c->has_from && !expr_u64(&c->from, &ask, &from, err)) ||
            (c->has_to && !expr_u64(&c->to, &ask, &to, err)) || (c->one && !zf_add(from, 1, &to)) ||
            !axes_cut(x, k, from, to, err))
            return false;
    }
    for (uint32_t k = s->n_cuts; k-- > 0;)
        if (s->cut[k].one)
            axes_drop(x, k);
    return true;
}

/* Applies the steps of o to tensor t. */
static bool expand_steps(struct plan *p, const struct origin *o, struct taken *t,
                         struct zf_err *err)
{
    const struct zf_tensor *from = given_tensor(&p->src, t->tensor);

    if (o->n_steps && from->dtype == ZF_DT_F4) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "4-bit elements (F4) cannot be re-ordered");
    }
    if (!axes_init(&t->axes, from->ndim, from->shape, err))
        return false;
    for (uint32_t i = 0; i < o->n_steps; i++) {
        const struct step *s = &o->step[i];

        if (s->pattern ? !axes_rearrange(&t->axes, s->pattern, ask_size, p, err)
                       : !expand_cut(p, s, &t->axes, err))
            return false;
    }
    return true;
}

/* The tensor that o names; UINT32_MAX with *err: there is none, or several. */
static uint32_t expand_find(struct plan *p, const struct origin *o, struct zf_err *err)
{
    uint32_t found = UINT32_MAX;
    const char *which = NULL;

    for (uint32_t k = 0; k < o->n_names; k++) {
        zf_auto(out) struct zf_out name = {.p = NULL};

        if (!names_fill(&p->loops, o->name[k], strlen(o->name[k]), &name)) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%.96s has an index that the target lacks",
                          o->name[k]);
            return UINT32_MAX;
        }
        const uint32_t i = given_find(&p->src, zf_out_text(&name));
        if (i != UINT32_MAX && found != UINT32_MAX) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the checkpoint has both %.96s and %.96s",
                          p->src.set->tensor[found].name, zf_out_text(&name));
            return UINT32_MAX;
        }
        if (i != UINT32_MAX) {
            found = i;
        } else if (!which) {
            which = zf_arena_str(p->a, zf_out_text(&name), name.n, err);
            if (!which)
                return UINT32_MAX;
        }
    }
    if (found == UINT32_MAX) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the checkpoint has no %.150s%s",
                      which ? which : "", o->n_names > 1 ? ", nor its other names" : "");
    }
    return found;
}

/* ---- indices ---------------------------------------------------------------------------------- */

static bool expand_bits(struct plan *p, const char *name, uint32_t *bits, struct zf_err *err)
{
    return names_loops(&p->loops, name, strlen(name), bits, err);
}

static void expand_open(struct plan *p, uint32_t bits, bool open)
{
    for (uint32_t i = 0; i < p->loops.n; i++) {
        if (bits >> i & 1) {
            p->loops.at[i].open = open;
            p->loops.at[i].value = 0;
        }
    }
}

/* Advances these indices to their next values; false: there are no more. */
static bool expand_next(struct plan *p, uint32_t bits)
{
    for (uint32_t i = p->loops.n; i-- > 0;) {
        struct loop *l = &p->loops.at[i];

        if (bits >> i & 1) {
            if (++l->value < l->end)
                return true;
            l->value = 0;
        }
    }
    return false;
}

static bool expand_none(const struct plan *p, uint32_t bits)
{
    bool none = false;

    for (uint32_t i = 0; i < p->loops.n; i++)
        none = none || (bits >> i & 1 && p->loops.at[i].end == 0);
    return none;
}

static bool expand_if(struct plan *p, bool *out, struct zf_err *err)
{
    const struct expr_ask ask = ask_begin(p);

    *out = true;
    return !p->line->cond || expr_true(p->line->cond, &ask, out, err);
}

/* ---- targets ---------------------------------------------------------------------------------- */

typedef zf_vec(struct taken) takens;

static bool expand_take(struct plan *p, const struct origin *o, takens *all, struct zf_err *err)
{
    struct taken *t = zf_vec_push(all, err);

    if (!t)
        return false;
    t->tensor = expand_find(p, o, err);
    return t->tensor != UINT32_MAX && expand_steps(p, o, t, err);
}

/* Finds all sources of the line; a join has one for every value of the indices that the target's name lacks. */
static bool expand_sources(struct plan *p, uint32_t target_bits, takens *all, struct zf_err *err)
{
    const struct line *l = p->line;

    for (uint32_t k = 0; k < l->n_origins; k++) {
        uint32_t bits;

        if (!expand_bits(p, l->origin[k].name[0], &bits, err))
            return false;
        bits = l->join == JOIN_NONE ? 0 : bits & ~target_bits;
        if (expand_none(p, bits))
            continue;
        bool ok = true, more = true;
        expand_open(p, bits, true);
        while (ok && more) {
            ok = expand_take(p, &l->origin[k], all, err);
            more = expand_next(p, bits);
        }
        expand_open(p, bits, false);
        if (!ok)
            return false;
    }
    return all->n > 0 || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "there is nothing to join");
}

/* Sets the target's shape and type; every part must fit. */
static bool expand_shape(struct plan *p, const takens *all, struct target *t, struct zf_err *err)
{
    const struct line *l = p->line;
    const struct axes *first = &all->at[0].axes;
    const uint32_t extra = l->join == JOIN_STACK;

    t->ndim = first->n + extra;
    t->dim = l->join == JOIN_NONE ? 0 : l->dim;
    t->dtype = given_tensor(&p->src, all->at[0].tensor)->dtype;
    t->shape = zf_arena_get(p->a, t->ndim ? t->ndim : 1, sizeof *t->shape, err);
    if (!t->shape)
        return false;
    if (l->join != JOIN_NONE && t->dim >= t->ndim)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "there is no dimension %u", t->dim);
    for (uint32_t k = 0, d = 0; d < t->ndim; d++)
        t->shape[d] = extra && d == t->dim ? 0 : axis_size(&first->at[k++]);
    for (size_t i = 0; i < all->n; i++) {
        const struct axes *x = &all->at[i].axes;
        bool fits = x->n == first->n && given_tensor(&p->src, all->at[i].tensor)->dtype == t->dtype;

        for (uint32_t k = 0; fits && k < x->n; k++) {
            fits = (l->join == JOIN_CAT && k == t->dim) ||
                   axis_size(&x->at[k]) == axis_size(&first->at[k]);
        }
        if (!fits) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "%.96s differs in shape or dtype from the tensors it is joined to",
                           p->src.set->tensor[all->at[i].tensor].name);
        }
        if (i > 0 || extra)
            t->shape[t->dim] += extra ? 1 : axis_size(&x->at[t->dim]);
    }
    return true;
}

static bool expand_use(struct plan *p, const struct taken *t, struct zf_strided *out,
                       struct zf_err *err)
{
    const uint32_t elem = zf_dtype_info(given_tensor(&p->src, t->tensor)->dtype)->bytes;
    struct use *u = zf_vec_push(&p->use, err);

    if (!u || !axes_strided(&t->axes, elem, &u->part, err))
        return false;
    u->tensor = t->tensor;
    u->line = (uint32_t)(p->line - p->r->line);
    *out = u->part;
    return true;
}

static bool expand_target(struct plan *p, const char *name, size_t n, takens *all,
                          struct zf_err *err)
{
    struct target *t;

    if (p->target.n >= p->lim->tensors) {
        return zf_fail_limit(err, ZF_LIMIT_tensors, ZF_OFF_NONE,
                             "more than %llu tensors (limit tensors)",
                             (unsigned long long)p->lim->tensors);
    }
    t = zf_vec_push(&p->target, err);
    if (!t)
        return false;
    t->line = (uint32_t)(p->line - p->r->line);
    t->name = zf_arena_str(p->a, name, n, err);
    t->n_parts = (uint32_t)all->n;
    t->part = zf_arena_get(p->a, all->n, sizeof *t->part, err);
    if (!t->name || !t->part || !expand_shape(p, all, t, err))
        return false;
    for (size_t i = 0; i < all->n; i++) {
        t->part[i].tensor = all->at[i].tensor;
        if (!expand_use(p, &all->at[i], &t->part[i].how, err))
            return false;
    }
    return true;
}

/* Expands the rule for the current values of its indices. */
static bool expand_one(struct plan *p, uint32_t bits, struct zf_err *err)
{
    zf_auto(out) struct zf_out name = {.p = NULL};
    takens all = {0};
    const size_t n = p->target.n;
    bool wanted;

    if (!expand_if(p, &wanted, err))
        return plan_wrong(p, p->line->at, err);
    if (!wanted)
        return true;
    if (!names_fill(&p->loops, p->line->name, strlen(p->line->name), &name) ||
        !zf_out_ok(&name, err))
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a name");
    const bool ok = expand_sources(p, bits, &all, err) &&
                    expand_target(p, zf_out_text(&name), name.n, &all, err);
    zf_vec_fini(&all);
    if (ok)
        return true;
    p->target.n = n;
    struct zf_err why = *err;
    if ((why.code == ZF_E_FORMAT || why.code == ZF_E_UNSUPPORTED) && !why.path[0])
        (void)zf_fail(err, why.code, ZF_OFF_NONE, "%.96s: %.200s", zf_out_text(&name), why.msg);
    return plan_wrong(p, p->line->origin[0].at, err);
}

/* ---- all that is left ------------------------------------------------------------------------- */

/* Marks the tensors used so far; calloc'ed. */
static bool *expand_used(const struct plan *p, struct zf_err *err)
{
    bool *used = calloc(p->src.n ? p->src.n : 1, sizeof *used);

    if (!used)
        return zf_null(zf_fail_sys(err, "look for unused tensors"));
    for (size_t i = 0; i < p->use.n; i++)
        used[p->use.at[i].tensor] = true;
    return used;
}

static bool expand_note_drop(struct plan *p, const char *name, struct zf_err *err)
{
    json_t *o =
        json_pack("{s:o, s:o}", "tensor", zf_json_text(name), "why", zf_json_text(p->line->text));

    return (o && json_array_append_new(p->left_out, o) == 0) ||
           zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the tensors left out");
}

/* Expands `* <- *`, and drops of names with a '*': they take the tensors that no earlier line uses. */
static bool expand_rest(struct plan *p, struct zf_err *err)
{
    const struct line *l = p->line;
    zf_auto(mem) bool *used = expand_used(p, err);
    bool wanted, ok = used != NULL;

    if (!used)
        return false;
    if (!expand_if(p, &wanted, err))
        return plan_wrong(p, l->at, err);
    for (uint32_t i = 0; ok && wanted && i < p->src.n; i++) {
        const char *name = given_name_of(&p->src, i);
        const uint32_t tensor = given_number(&p->src, i);
        takens all = {0};

        if (used[tensor] || (l->kind == LINE_DROP && fnmatch(l->origin[0].name[0], name, 0) != 0))
            continue;
        struct taken *t = zf_vec_push(&all, err);
        struct zf_strided part;

        if (t)
            t->tensor = tensor;
        ok = t && expand_steps(p, &l->origin[0], t, err) &&
             (l->kind == LINE_DROP ? expand_use(p, t, &part, err) && expand_note_drop(p, name, err)
                                   : expand_target(p, name, strlen(name), &all, err));
        zf_vec_fini(&all);
    }
    return ok || plan_wrong(p, l->at, err);
}

/* Expands a drop for the current values of its indices; a missing tensor is ignored. */
static bool expand_drop(struct plan *p, struct zf_err *err)
{
    const struct origin *o = &p->line->origin[0];
    struct taken t = {.tensor = UINT32_MAX};
    struct zf_strided part;
    bool wanted;

    if (!expand_if(p, &wanted, err))
        return plan_wrong(p, p->line->at, err);
    zf_err_clear(err);
    t.tensor = wanted ? expand_find(p, o, err) : UINT32_MAX;
    if (t.tensor == UINT32_MAX)
        return err->code != ZF_E_NOMEM;
    if (!expand_steps(p, o, &t, err))
        return plan_wrong(p, o->at, err);
    return expand_use(p, &t, &part, err) &&
           expand_note_drop(p, p->src.set->tensor[t.tensor].name, err);
}

bool expand_line(struct plan *p, struct zf_err *err)
{
    const struct line *l = p->line;
    const char *name = l->kind == LINE_DROP ? l->origin[0].name[0] : l->name;
    uint32_t bits;

    if (l->kind == LINE_DROP
            ? strchr(name, '*') != NULL
            : strcmp(name, "*") == 0 && l->n_origins == 1 && strcmp(l->origin[0].name[0], "*") == 0)
        return expand_rest(p, err);
    if (!expand_bits(p, name, &bits, err))
        return plan_wrong(p, l->at, err);
    if (expand_none(p, bits))
        return true;
    bool ok = true, more = true;
    expand_open(p, bits, true);
    while (ok && more) {
        ok = l->kind == LINE_DROP ? expand_drop(p, err) : expand_one(p, bits, err);
        more = expand_next(p, bits);
    }
    expand_open(p, bits, false);
    return ok;
}
