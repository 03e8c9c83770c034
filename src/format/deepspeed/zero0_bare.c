/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer states have ids in the order in which the parameters were passed to the optimizer.  That order is not recorded,
 * and often has decayed weights first.  param_groups[g].param_names has their names, if these were passed, too
 * (torch 2.7).  Source: torch/optim/optimizer.py
 * (state_dict), 1.13 … 2.13; deepspeed/runtime/engine.py, 0.19.8. */
#include "zero0.h"

#include <string.h>

#include <zf/assemble/degraded.h>

#define BARE_IDS (1u << 20) /* most parameters of an optimizer */

/* The states of one parameter. */
struct bare_one {
    uint64_t id;
    const struct zf_pv *state; /* a mapping */
    uint32_t entry;            /* index in `module`, once found */
    struct zf_tensor_ref like; /* a state of the parameter's shape */
};

struct bare {
    struct ds_zero0 *q;
    struct bare_one *one; /* [n] */
    uint64_t n;
};

/* Do all tensors of the state, except scalars, have the same shape?  one->like: a tensor of that shape. */
static bool bare_has_shape(struct bare *b, struct bare_one *one, bool *yes, struct zf_err *err)
{
    struct zf_tensor_ref r;
    bool some = false;

    *yes = true;
    for (uint64_t i = 0; *yes && i < zf_pv_len(one->state); i++) {
        const struct zf_pv *v = zf_pv_val(one->state, i);

        if (zf_torch_kind(b->q->states.torch, v) != ZF_TORCH_DENSE ||
            zf_tensor_ref_odd(b->q->states.torch, v, err)) {
            zf_err_clear(err); /* ds_states_draft notes it */
            continue;
        }
        if (!zf_tensor_ref_read(&b->q->mp->save->keep, b->q->states.torch, v, &r, err))
            return false;
        if (r.ndim == 0)
            continue;
        *yes = !some || zf_shape_equal(r.ndim, r.shape, one->like.ndim, one->like.shape);
        one->like = r;
        some = true;
    }
    *yes = *yes && some;
    return true;
}

static bool bare_fits(const struct ds_zero0 *q, uint32_t i, const struct zf_tensor_ref *r)
{
    const struct zf_tensor_ref *w = &q->mp->model.entry[i].view;

    return q->weight[i].view && zf_shape_equal(w->ndim, w->shape, r->ndim, r->shape);
}

/* Finds the only weight of that shape; false: none, several, or it belongs to another state already. */
static bool bare_only_weight(struct ds_zero0 *q, struct bare_one *one)
{
    uint32_t n = 0;

    for (uint32_t i = 0; n < 2 && i < q->mp->model.n_entries; i++) {
        if (bare_fits(q, i, &one->like)) {
            one->entry = i;
            n++;
        }
    }
    if (n != 1 || q->weight[one->entry].taken)
        return false;
    q->weight[one->entry].taken = true;
    return true;
}

/* The name of parameter `id` in param_names, or NULL. */
static const struct zf_pv *bare_name(const struct zf_pv *groups, uint64_t id)
{
    for (uint64_t g = 0; g < zf_pv_len(groups); g++) {
        const struct zf_pv *ids = zf_pv_get(zf_pv_item(groups, g), "params");
        const struct zf_pv *names = zf_pv_get(zf_pv_item(groups, g), "param_names");
        uint64_t first;

        /* ids are consecutive over all groups */
        if (zf_pv_len(names) == zf_pv_len(ids) && zf_pv_u64(zf_pv_item(ids, 0), &first) &&
            id >= first && id - first < zf_pv_len(names)) {
            uint64_t own;

            return zf_pv_u64(zf_pv_item(ids, id - first), &own) && own == id
                       ? zf_pv_item(names, id - first)
                       : NULL;
        }
    }
    return NULL;
}

static bool bare_named(struct bare *b, const struct zf_pv *groups, struct bare_one *one, bool *yes,
                       struct zf_err *err)
{
    struct ds_zero0 *q = b->q;
    const struct zf_pv *v = bare_name(groups, one->id);
    struct ds_name name;

    *yes = false;
    if (zf_pv_kind(v) != ZF_PV_STR)
        return true;
    if (!ds_name_of(q->mp->save->a, v, "param_names", &name, err))
        return false;
    const struct ds_entry *e = ds_model_find(&q->mp->model, name);
    if (!e)
        return true;
    one->entry = e->same;
    *yes = !q->weight[one->entry].taken && bare_fits(q, one->entry, &one->like);
    q->weight[one->entry].taken = q->weight[one->entry].taken || *yes;
    return true;
}

/* Finds the weight of each state.  *all: found for every state. */
static bool bare_find(struct bare *b, const struct zf_pv *groups, bool *all, struct zf_err *err)
{
    *all = (uint64_t)b->n * b->q->mp->model.n_entries < UINT32_MAX;
    for (uint64_t i = 0; *all && i < b->n; i++)
        if (!bare_has_shape(b, &b->one[i], all, err))
            return false;
    if (*all && bare_name(groups, b->one[0].id)) {
        for (uint64_t i = 0; *all && i < b->n; i++)
            if (!bare_named(b, groups, &b->one[i], all, err))
                return false;
        return true;
    }
    for (uint64_t i = 0; *all && i < b->n; i++)
        *all = bare_only_weight(b->q, &b->one[i]);
    return true;
}

static bool bare_list(struct bare *b, const struct zf_pv *state, struct zf_err *err)
{
    uint64_t n = zf_pv_is_map(state) ? zf_pv_len(state) : 0;

    if (n > BARE_IDS) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the optimizer has states of %llu parameters",
                       (unsigned long long)n);
    }
    b->one = zf_arena_get(b->q->mp->save->a, n, sizeof *b->one, err);
    for (uint64_t i = 0; b->one && i < n; i++) {
        struct bare_one *one = &b->one[b->n];

        *one = (struct bare_one){.state = zf_pv_val(state, i)};
        if (zf_pv_u64(zf_pv_key(state, i), &one->id) && zf_pv_is_map(one->state))
            b->n++;
    }
    return b->one != NULL;
}

bool ds_zero0_bare(struct ds_zero0 *q, const struct zf_pv *optim, struct zf_err *err)
{
    struct bare b = {.q = q};
    struct zf_build *build = q->mp->save->b;
    bool named = false;

    const struct zf_pv *state = zf_pv_get(optim, "state");

    if (!bare_list(&b, state, err))
        return false;
    if (b.n == 0 && (zf_pv_is_map(state) || zf_pv_kind(optim) == ZF_PV_NONE))
        return true;
    if (b.n == 0) {
        return zf_build_note_on(
            build, ZF_NOTE_LEFT_OUT, q->mp->model.path, err,
            "the optimizer states are left out: the save does not record which parameters they "
            "belong to, and it has no fp32 masters to compare with the weights");
    }
    if (!bare_find(&b, zf_pv_get(optim, "param_groups"), &named, err))
        return false;
    named = named && b.n == zf_pv_len(state);
    q->mp->numbered = !named;
    for (uint64_t i = 0; named && i < b.n; i++) {
        struct ds_name name = q->mp->model.entry[b.one[i].entry].name;

        if (!ds_states_draft(&q->states, name, b.one[i].state, NULL, err))
            return false;
    }
    return ds_overlap_check(&q->states.overlap, err) || zf_err_in(err, "%s", q->mp->model.path);
}
