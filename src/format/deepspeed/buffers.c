/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, frozen parameters and tied names are in no flat buffer; each is served in the dtype it was
 * saved in. Source: deepspeed/runtime/engine.py (_get_buffer_names, _get_shared_params),
 * 0.6.0 … 0.19.8. */
#include "steps.h"

#include <string.h>

#include <zf/assemble/values.h>
#include <zf/base/num.h>

/* Under stage 3 every parameter is an empty tensor in `module` (before 0.6: of one element); only
 * buffers have data. */
static bool buffers_is_placeholder(const struct ds_rank *mp, const struct ds_entry *e)
{
    const struct ds_model *m = &mp->model;

    if (!mp->save->dir.by_rank || ds_name_listed(m->buffer, m->n_buffers, e->name))
        return false;
    return m->has_buffers || e->view.n == 0;
}

/* Drafts entry e, which is not an alias. */
static bool buffers_draft_entry(struct ds_rank *mp, const struct ds_entry *e, struct zf_err *err)
{
    if (e->lost || zf_names_extra_state(e->name.p, e->name.n)) {
        return !e->tensor ||
               zf_tensor_ref_draft(mp->save->b, ds_spot("extra", e->name), &e->view, NULL, err);
    }
    if (!e->tensor) {
        return zf_build_note_on(mp->save->b, ZF_NOTE_LEFT_OUT, mp->model.path, err,
                                "\"%.*s\" is left out: it is not a dense tensor", (int)e->name.n,
                                e->name.p);
    }
    if (buffers_is_placeholder(mp, e)) {
        return zf_build_note_on(
            mp->save->b, ZF_NOTE_LEFT_OUT, mp->model.path, err,
            "\"%.*s\" is left out: it is a frozen parameter, and DeepSpeed did not save its data",
            (int)e->name.n, e->name.p);
    }
    if (zf_tensor_ref_draft(mp->save->b, ds_spot("", e->name), &e->view, NULL, err))
        return true;
    return !ds_err_named(err) && zf_err_in(err, "%s", mp->model.path);
}

/* A trained parameter's 16-bit weight must have as many elements as its recorded shape. */
static bool buffers_check_size(struct ds_rank *mp, const struct ds_entry *e, struct zf_err *err)
{
    const struct zf_draft *d = rank_find(mp, e->name);
    uint64_t n = 0;

    /* converting to the universal form may cut a padded vocabulary */
    if (mp->save->dir.by_rank || mp->save->dir.universal || !e->tensor ||
        (zf_elems(zf_draft_type(d).ndim, zf_draft_type(d).shape, &n) && n == e->view.n))
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "\"%.*s\" has %llu elements in \"module\", but its shape in param_shapes has %llu",
            (int)e->name.n, e->name.p, (unsigned long long)e->view.n, (unsigned long long)n);
    return !ds_err_named(err) && zf_err_in(err, "%s", mp->model.path);
}

static bool buffers_draft_alias(struct ds_rank *mp, const struct ds_alias *a, bool *done,
                                struct zf_err *err)
{
    struct zf_draft *of = rank_find(mp, a->of);

    *done = true;
    if (rank_find(mp, a->name))
        return true;
    *done = of != NULL;
    return !of || zf_build_alias(mp->save->b, of, a->name.p, a->name.n, err);
}

/* The tensor of that name in `module`, or NULL.  NULL under stage 3, where it is a placeholder, and in
 * a universal checkpoint, whose conversion may have cut the padding off the tensor it is tied to. */
static const struct ds_entry *buffers_own(const struct ds_rank *mp, struct ds_name name)
{
    const struct ds_entry *e =
        mp->save->dir.by_rank || mp->save->dir.universal ? NULL : ds_model_find(&mp->model, name);

    return e && e->tensor && !zf_names_extra_state(name.p, name.n) ? e : NULL;
}

/* DeepSpeed records names as tied if their data begin at the same address.  That is also true of all
 * parameters without elements, and of a view of part of another parameter: their shapes differ.
 * Source: runtime/engine.py (_get_shared_params), 0.10.1 … 0.19.8. */
static bool buffers_is_false(const struct ds_rank *mp, const struct ds_alias *a)
{
    const struct ds_entry *e = buffers_own(mp, a->name);
    struct zf_draft *of = e ? rank_find(mp, a->of) : NULL;
    struct zf_type t = of ? zf_draft_type(of) : (struct zf_type){0};

    return of && !zf_shape_equal(t.ndim, t.shape, e->view.ndim, e->view.shape);
}

static bool buffers_draft_own(struct ds_rank *mp, const struct ds_alias *a, bool *done,
                              struct zf_err *err)
{
    const struct ds_entry *e = buffers_own(mp, a->name);

    *done = e != NULL;
    return !e || buffers_draft_entry(mp, e, err);
}

/* Is the name's tensor in `module` a view of the same elements as another name's? */
static bool buffers_has_tie(const struct ds_rank *mp, struct ds_name name)
{
    const struct ds_entry *e = buffers_own(mp, name);

    return e && ds_is_tie(&mp->model, (uint32_t)(e - mp->model.entry));
}

/* If `module` has data for both names, they must be equal. */
static bool buffers_check_alias(struct ds_rank *mp, const struct ds_alias *a,
                                struct zf_copy_check *check, struct zf_err *err)
{
    const struct ds_entry *e = buffers_own(mp, a->name), *of = buffers_own(mp, a->of);
    bool same = true;

    if (!e || !of || zf_tensor_ref_cmp(&e->view, &of->view) == 0)
        return true;
    if (!zf_copy_check_equal(check, &e->view, &of->view, &same, err))
        return false;
    if (same)
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "shared_params ties \"%.*s\" to \"%.*s\", but the two differ in \"module\"",
            ds_name_shown(a->name), a->name.p, ds_name_shown(a->of), a->of.p);
    return zf_err_in(err, "%s", mp->model.path);
}

/* Drafts shared_params, in several rounds, because a name may be tied to another tied name.
 * *left: the names whose target is missing. */
static bool buffers_draft_shared(struct ds_rank *mp, uint32_t *left, struct zf_copy_check *check,
                                 struct zf_err *err)
{
    const struct ds_model *m = &mp->model;
    uint32_t before = m->n_aliases + 1;
    bool done;

    *left = m->n_aliases;
    for (int round = 0; round < 16 && *left > 0 && *left < before; round++) {
        before = *left;
        *left = 0;
        for (uint32_t i = 0; i < m->n_aliases; i++) {
            bool known = rank_find(mp, m->alias[i].name) != NULL;
            bool wrong = !known && buffers_is_false(mp, &m->alias[i]);

            if (!known && !wrong && !buffers_check_alias(mp, &m->alias[i], check, err))
                return false;
            if (!(wrong ? buffers_draft_own(mp, &m->alias[i], &done, err)
                        : buffers_draft_alias(mp, &m->alias[i], &done, err)))
                return false;
            *left += !done;
        }
    }
    return true;
}

/* Notes names listed as tied that have data of their own, such as a frozen bf16 parameter tied to a
 * trained one with an fp32 master: both are shown.  Pre: aliases are not drafted yet. */
static bool buffers_note_untied(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *m = &mp->model;
    const struct ds_alias *first = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n_aliases; i++) {
        const struct ds_alias *a = &m->alias[i];

        if (rank_find(mp, a->name) && rank_find(mp, a->of))
            first = n++ ? first : a;
    }
    return n == 0 || zf_build_note(mp->save->b, err,
                                   "shared_params ties %u names to parameters, although both were "
                                   "saved, so each is shown as it was saved: \"%.*s\" and \"%.*s\"",
                                   n, ds_name_shown(first->name), first->name.p,
                                   ds_name_shown(first->of), first->of.p);
}

static bool buffers_draft_aliases(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *m = &mp->model;
    struct zf_copy_check check = {.all = zf_build_records_copies(mp->save->b)};
    uint32_t left, n_false = 0;
    bool done, ok = buffers_draft_shared(mp, &left, &check, err) &&
                    zf_copy_check_note(&check, mp->save->b, err);

    zf_copy_check_fini(&check);
    if (!ok)
        return false;
    for (uint32_t i = 0; i < m->n_aliases; i++)
        n_false += buffers_is_false(mp, &m->alias[i]);
    for (uint32_t i = 0; left > 0 && i < m->n_aliases; i++) {
        if (!rank_find(mp, m->alias[i].name) && !rank_find(mp, m->alias[i].of)) {
            if (buffers_has_tie(mp, m->alias[i].name)) {
                left--; /* buffers_draft_ties drafts it: it shares another name's storage */
                continue;
            }
            if (!buffers_draft_own(mp, &m->alias[i], &done, err))
                return false;
            left -= done;
        }
    }
    if (n_false > 0 &&
        !zf_build_note(mp->save->b, err,
                       "shared_params ties %u names to parameters of other shapes, so they are "
                       "shown untied (DeepSpeed takes all parameters without elements for one)",
                       n_false))
        return false;
    return left == 0 ||
           zf_build_note_on(
               mp->save->b, ZF_NOTE_LEFT_OUT, mp->model.path, err,
               "%u tied names are left out, because the tensors they are tied to are missing",
               left);
}

/* Drafts frozen parameters that `module` lacks. */
static bool buffers_draft_fragments(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *m = &mp->model;

    for (uint32_t i = 0; i < m->n_fragments; i++) {
        const struct ds_entry *f = &m->fragment[i];

        if (!rank_find(mp, f->name) &&
            !zf_tensor_ref_draft(mp->save->b, ds_spot("", f->name), &f->view, NULL, err))
            return false;
    }
    return true;
}

/* Drafts the aliases of entries that are drafted. */
static bool buffers_draft_ties(struct ds_rank *mp, const struct ds_model *m, struct zf_err *err)
{
    for (uint32_t i = 0; i < m->n_entries; i++) {
        struct ds_alias a = {m->entry[i].name, m->entry[m->entry[i].same].name};
        bool done;

        if (ds_is_tie(m, i) && !buffers_draft_alias(mp, &a, &done, err))
            return false;
    }
    return true;
}

/* Drafts the weights of experts that are not in the optimizer: frozen, or without usable masters. */
static bool buffers_draft_experts(struct ds_rank *mp, struct zf_err *err)
{
    struct ds_model *m = &mp->expert;

    if (!ds_ties_mark(mp, m, err))
        return false;
    for (uint32_t i = 0; i < m->n_entries; i++)
        if ((mp->weights_only || !m->entry[i].trained) && !ds_is_tie(m, i) &&
            !rank_find(mp, m->entry[i].name) && !buffers_draft_entry(mp, &m->entry[i], err))
            return false;
    return buffers_draft_ties(mp, m, err);
}

/* Stages 1 and 2 record a frozen parameter up to three times: the shapes must agree. */
static bool buffers_check_frozen(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *m = &mp->model;

    for (uint32_t i = 0; i < m->frozen.n; i++) {
        const struct ds_param *p = &m->frozen.param[i];
        const struct ds_entry *e = ds_model_find(m, p->name);

        if (e && e->tensor && !zf_shape_equal(e->view.ndim, e->view.shape, p->ndim, p->shape)) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "\"%.*s\" has another shape in \"module\" than in frozen_param_shapes",
                    ds_name_shown(p->name), p->name.p);
            return zf_err_in(err, "%s", m->path);
        }
    }
    return true;
}

bool ds_rest_draft(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *m = &mp->model;

    if (mp->save->dir.by_rank ? !ds_zero3_frozen(mp, err)
                              : !mp->save->dir.universal && !buffers_check_frozen(mp, err))
        return false;
    if (!ds_ties_mark(mp, &mp->model, err))
        return false;
    for (uint32_t i = 0; i < m->n_entries; i++) {
        const struct ds_entry *e = &m->entry[i];
        bool drafted = rank_find(mp, e->name) != NULL;

        if (drafted ? !buffers_check_size(mp, e, err)
                    : !ds_is_tie(m, i) && !ds_ties_listed(m, e->name) &&
                          !buffers_draft_entry(mp, e, err))
            return false;
    }
    if ((!mp->save->dir.by_rank && !buffers_draft_fragments(mp, err)) ||
        !buffers_note_untied(mp, err) || !buffers_draft_aliases(mp, err))
        return false;
    return buffers_draft_ties(mp, m, err) && buffers_draft_experts(mp, err);
}
