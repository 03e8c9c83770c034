/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, frozen parameters and tied names have no flat vector; each is served in the dtype it was
 * saved in. Source: deepspeed/runtime/engine.py (_get_buffer_names, _get_shared_params),
 * 0.6.0 … 0.19.8. */
#include "buffers.h"

#include <zf/assemble/names.h>
#include <zf/base/num.h>

#include "ties.h"
#include "zero3.h"

/* Under stage 3 whatever is no buffer is an empty tensor in `module`
 * (before 0.6: of one element). */
static bool buffers_is_placeholder(const struct ds_rank *mp, const struct ds_entry *e)
{
    const struct ds_model *m = &mp->model;

    if (!mp->save->dir.by_rank || ds_name_listed(m->buffer, m->n_buffers, e->name)) {
        return false;
    }
    return m->has_buffers || e->view.n == 0;
}

/* Drafts entry e, which is no second name of another. */
static bool buffers_draft_entry(struct ds_rank *mp, const struct ds_entry *e, struct zf_err *err)
{
    if (zf_names_extra_state(e->name.p, e->name.n)) {
        return !e->tensor ||
               zf_tensor_ref_draft(mp->save->b, ds_spot("extra", e->name), &e->view, NULL, err);
    }
    if (!e->tensor) {
        return zf_build_note(mp->save->b, err, "\"%.*s\" is left out: it is not a dense tensor",
                             (int)e->name.n, e->name.p);
    }
    if (buffers_is_placeholder(mp, e)) {
        return zf_build_note(
            mp->save->b, err,
            "\"%.*s\" is left out: a frozen parameter whose data DeepSpeed did not "
            "save",
            (int)e->name.n, e->name.p);
    }
    if (zf_tensor_ref_draft(mp->save->b, ds_spot("", e->name), &e->view, NULL, err)) {
        return true;
    }
    return !ds_err_named(err) && zf_err_in(err, "%s", mp->model.path);
}

/* A trained parameter's 16-bit weight must have as many elements as its shape says. */
static bool buffers_check_size(struct ds_rank *mp, const struct ds_entry *e, struct zf_err *err)
{
    const struct zf_draft *d = rank_find(mp, e->name);
    uint64_t n = 0;

    /* converting to the universal form may cut a padded vocabulary */
    if (mp->save->dir.by_rank || mp->save->dir.universal || !e->tensor ||
        (zf_elems(zf_draft_type(d).ndim, zf_draft_type(d).shape, &n) && n == e->view.n)) {
        return true;
    }
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "\"%.*s\" has %llu elements in \"module\", but %llu by its shape in param_shapes",
            (int)e->name.n, e->name.p, (unsigned long long)e->view.n, (unsigned long long)n);
    return !ds_err_named(err) && zf_err_in(err, "%s", mp->model.path);
}

static bool buffers_draft_alias(struct ds_rank *mp, const struct ds_alias *a, bool *done,
                                struct zf_err *err)
{
    struct zf_draft *of = rank_find(mp, a->of);

    *done = true;
    if (rank_find(mp, a->name)) {
        return true;
    }
    *done = of != NULL;
    return !of || zf_build_alias(mp->save->b, of, a->name.p, a->name.n, err);
}

/* shared_params, in as many rounds as chains need. */
static bool buffers_draft_aliases(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *m = &mp->model;
    uint32_t left = m->n_aliases, before;
    bool done;

    for (int round = 0; round < 16 && left > 0; round++) {
        before = left;
        left = 0;
        for (uint32_t i = 0; i < m->n_aliases; i++) {
            if (!buffers_draft_alias(mp, &m->alias[i], &done, err)) {
                return false;
            }
            left += !done;
        }
        if (left == before) {
            break;
        }
    }
    return left == 0 ||
           zf_build_note(mp->save->b, err,
                         "%u tied names are left out: what they are tied to is not there", left);
}

/* Frozen parameters that `module` does not hold itself. */
static bool buffers_draft_fragments(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *m = &mp->model;

    for (uint32_t i = 0; i < m->n_fragments; i++) {
        const struct ds_entry *f = &m->fragment[i];

        if (!rank_find(mp, f->name) &&
            !zf_tensor_ref_draft(mp->save->b, ds_spot("", f->name), &f->view, NULL, err)) {
            return false;
        }
    }
    return true;
}

/* Of experts: what the optimizer does not have, be they frozen or there are no masters. */
static bool buffers_draft_experts(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *m = &mp->expert;
    const uint32_t *tie = ds_ties_find(mp, m->entry, m->n_entries, err);

    for (uint32_t i = 0; tie && i < m->n_entries; i++) {
        if ((mp->plain || !mp->trained[i]) && tie[i] == i &&
            !rank_find(mp, m->entry[i].name) &&
            !buffers_draft_entry(mp, &m->entry[i], err)) {
            return false;
        }
    }
    for (uint32_t i = 0; tie && i < m->n_entries; i++) {
        struct ds_alias a = {m->entry[i].name, m->entry[tie[i]].name};
        bool done;

        if (tie[i] != i && !buffers_draft_alias(mp, &a, &done, err)) {
            return false;
        }
    }
    return tie != NULL;
}

bool ds_rest_draft(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *m = &mp->model;
    const uint32_t *tie;

    if (mp->save->dir.by_rank && !ds_zero3_frozen(mp, err)) {
        return false;
    }
    tie = mp->tie = ds_ties_find(mp, m->entry, m->n_entries, err);
    for (uint32_t i = 0; tie && i < m->n_entries; i++) {
        const struct ds_entry *e = &m->entry[i];
        bool drafted = rank_find(mp, e->name) != NULL;

        if (drafted
                ? !buffers_check_size(mp, e, err)
                : tie[i] == i && !ds_ties_listed(m, e->name) && !buffers_draft_entry(mp, e, err)) {
            return false;
        }
    }
    if (!tie || (!mp->save->dir.by_rank && !buffers_draft_fragments(mp, err)) ||
        !buffers_draft_aliases(mp, err)) {
        return false;
    }
    for (uint32_t i = 0; i < m->n_entries; i++) {
        struct ds_alias a = {m->entry[i].name, m->entry[tie[i]].name};
        bool done;

        if (tie[i] != i && !buffers_draft_alias(mp, &a, &done, err)) {
            return false;
        }
    }
    return buffers_draft_experts(mp, err);
}
