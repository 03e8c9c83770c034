/* SPDX-License-Identifier: Apache-2.0 */
/* Releases before 0.4.3 recorded all parameters in the order of the model, including frozen ones, and
 * not the optimizer's groups; those up to 0.5.3 recorded the groups' parameters in one mapping, without
 * the groups' ends.  Groups are served only if the weights prove them: the groups shown by the storages
 * of `module`, else the recorded order cut by the groups' lengths, else a search by values.  Source:
 * deepspeed/runtime/engine.py (_get_param_shapes, _get_zero_param_shapes), 0.3.14, 0.4.0, 0.4.3. */
#include "steps.h"

#include <zf/assemble/prove.h>
#include <zf/base/num.h>

#define MERGED_ALIGN 2u /* elements of padding per rank */

/* ---- what is proved ---- */

static bool merged_is_weight(const struct ds_entry *e, const struct ds_param *p)
{
    enum zf_dtype t = e ? e->view.dtype : ZF_DT_F32;

    return e && e->tensor && e->view.src && e->view.packed && e->view.n > 0 && e->view.n == p->n &&
           (t == ZF_DT_F16 || t == ZF_DT_BF16 || t == ZF_DT_F32);
}

/* The group's flat buffer, over its ranks.  *whole: no rank's file is lost. */
static bool merged_lay(struct ds_rank *mp, const struct ds_group *group,
                       struct zf_prove_vector *out, bool *whole, struct zf_err *err)
{
    uint32_t n = group->n_ranks;
    struct zf_values *part = zf_arena_get(mp->save->a, n, sizeof *part, err);
    uint64_t *begin = part ? zf_arena_get(mp->save->a, n + 1ull, sizeof *begin, err) : NULL;

    if (!begin)
        return false;
    for (uint32_t r = 0; r < n && *whole; r++) {
        const struct ds_flat *f = &group->part[r]->master;

        *whole = !f->lost;
        if (*whole) {
            part[r] = (struct zf_values){f->src, f->off, f->dtype};
            *whole = zf_add(begin[r], f->n, &begin[r + 1]);
        }
    }
    *out = (struct zf_prove_vector){
        .part = part,
        .begin = begin,
        .n_parts = n,
        .pad = (uint64_t)MERGED_ALIGN * n,
        /* sub-partitions (n > n_dp) are older than the round-robin order */
        .dealt = n == mp->n_dp ? n : 0};
    return true;
}

static bool merged_init(struct ds_rank *mp, struct zf_prove *p, bool *whole, struct zf_err *err)
{
    const struct ds_shapes *all = mp->merged;
    uint64_t elements = 0;

    p->n_weights = all->n;
    p->n_vectors = mp->n_groups;
    p->weight = zf_arena_get(mp->save->a, all->n, sizeof *p->weight, err);
    p->vector = zf_arena_get(mp->save->a, mp->n_groups, sizeof *p->vector, err);
    if (!p->weight || !p->vector)
        return false;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct ds_entry *e = ds_model_find(&mp->model, all->param[i].name);

        if (merged_is_weight(e, &all->param[i])) {
            p->weight[i].view = &e->view;
            elements += e->view.n < UINT32_MAX ? e->view.n : UINT32_MAX;
        }
    }
    p->sample = zf_sample_of(elements, all->n);
    p->skip_lost = mp->save->o->degraded;
    *whole = true;
    for (uint32_t g = 0; g < mp->n_groups; g++)
        if (!merged_lay(mp, &mp->group[g], &p->vector[g], whole, err))
            return false;
    return true;
}

/* Makes groups of the proved pieces. */
static struct ds_group *merged_groups(struct ds_rank *mp, const struct zf_prove *p,
                                      struct zf_err *err)
{
    struct ds_group *out = zf_arena_get(mp->save->a, p->n_vectors, sizeof *out, err);
    uint32_t *which = out ? zf_arena_get(mp->save->a, p->piece.n, sizeof *which, err) : NULL;

    if (!which)
        return NULL;
    for (size_t i = 0; i < p->piece.n; i++)
        which[i] = p->piece.at[i].to;
    for (uint32_t g = 0; g < p->n_vectors; g++) {
        const struct zf_prove_vector *v = &p->vector[g];

        if (!ds_groups_pick(mp, &mp->group[g], which + v->first, v->n, &out[g], err))
            return NULL;
    }
    return out;
}

/* Fails with the reason why nothing is proven; `first`: why the recorded order is not. */
static bool merged_refuse(struct ds_rank *mp, const struct zf_prove *p, const struct zf_err *first,
                          struct zf_err *err)
{
    const struct ds_param *all = mp->merged->param;
    uint32_t g = mp->group[p->why.vector].index;

    if (p->why.kind == ZF_PROVE_NONE && p->piece.n == 0) {
        *err = *first;
        return false;
    }
    if (p->why.kind == ZF_PROVE_NONE) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "the masters of group %u round to no weight in \"module\" from element %llu on", g,
                (unsigned long long)p->why.at);
    } else if (p->why.kind == ZF_PROVE_ORDER) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "the masters are neither in the order of the model nor in the round-robin order "
                "over the ranks");
    } else {
        bool padding = p->why.two[1] == ZF_PROVE_NOBODY;
        struct ds_name a = all[p->why.two[0]].name;
        struct ds_name b = padding ? (struct ds_name){"", 0} : all[p->why.two[1]].name;

        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "a master of group %u fits \"%.*s\" as well as %s%.*s%s: param_shapes does not "
                "record which parameters are in which group, and the weights do not prove it",
                g, ds_name_shown(a), a.p, padding ? "the padding" : "\"", ds_name_shown(b), b.p,
                padding ? "" : "\"");
    }
    return zf_err_in(err, "%s", mp->model.path);
}

/* ---- what is served ---- */

/* Do both have the same parameters in the same order? */
static bool merged_is_same(const struct ds_rank *mp, const struct ds_group *other)
{
    for (uint32_t g = 0; g < mp->n_groups; g++) {
        if (mp->group[g].n != other[g].n)
            return false;
        for (uint32_t i = 0; i < other[g].n; i++)
            if (!ds_name_eq(mp->group[g].param[i].name, other[g].param[i].name))
                return false;
    }
    return true;
}

/* Takes the groups found by the weights, and proves them again with all readable ranks. */
static bool merged_take(struct ds_rank *mp, struct ds_group *group, const char *how,
                        struct zf_err *err)
{
    bool same = merged_is_same(mp, group);

    mp->group = group;
    mp->placed = true;
    return ds_order_prove(mp, err) &&
           (same ||
            zf_build_note(mp->save->b, err,
                          "param_shapes does not record the groups of the parameters, or their "
                          "order, so zero_to_fp32.py of that release gives weights wrong names; %s",
                          how));
}

/* Tries the groups shown by the storages of `module`, then the recorded order, then the values. */
static bool merged_prove(struct ds_rank *mp, struct zf_prove *p, struct zf_err *err)
{
    struct ds_group *shown;
    struct zf_err first;
    bool whole, proven = false;

    if (!merged_init(mp, p, &whole, err) || (whole && !zf_prove_by_storage(p, &proven, err)))
        return !ds_err_named(err) && zf_err_in(err, "%s", mp->model.path);
    if (proven) {
        shown = merged_groups(mp, p, err);
        return shown &&
               merged_take(
                   mp, shown,
                   "here the storages in \"module\" gave the groups, and the weights prove them",
                   err);
    }
    if (ds_order_prove(mp, err))
        return true;
    if (err->code != ZF_E_FORMAT || !whole)
        return false;
    first = *err;
    zf_err_clear(err);
    if (!zf_prove_by_value(p, &proven, err))
        return !ds_err_named(err) && zf_err_in(err, "%s", mp->model.path);
    if (!proven)
        return merged_refuse(mp, p, &first, err);
    shown = merged_groups(mp, p, err);
    return shown &&
           merged_take(mp, shown, "here the weights in \"module\" prove the right names", err);
}

bool ds_merged_prove(struct ds_rank *mp, struct zf_err *err)
{
    zf_auto(prove) struct zf_prove p = {.n_weights = 0};

    if (mp->model.zenflow) {
        zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                "a ZenFlow save with one list of names for all groups is not supported, because "
                "its weights cannot prove the order");
        return zf_err_in(err, "%s", mp->model.path);
    }
    return merged_prove(mp, &p, err);
}
