/* SPDX-License-Identifier: Apache-2.0 */
/* Releases before 0.4.3 recorded the model's parameters in the model's order, frozen ones too, and
 * nothing of the optimizer's groups; those up to 0.5.3 the groups' parameters, without a word about where
 * one group ends.  What is served is proved by the weights in each case: the groups as the storages of
 * `module` show them, else the recorded order cut by the groups' lengths, else value by value.  Source:
 * deepspeed/runtime/engine.py (_get_param_shapes, _get_zero_param_shapes), 0.3.14, 0.4.0, 0.4.3. */
#include "merged.h"

#include "order.h"

bool ds_merged_is_weight(const struct ds_entry *e, const struct ds_param *p)
{
    static const enum zf_dtype types[] = DS_MERGED_TYPES;

    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        if (e && e->tensor && e->view.src && e->view.packed && e->view.n > 0 && e->view.n == p->n &&
            e->view.dtype == types[k]) {
            return true;
        }
    }
    return false;
}

/* Do both have the same parameters in the same order? */
static bool merged_is_same(const struct ds_rank *mp, const struct ds_group *other)
{
    for (uint32_t g = 0; g < mp->n_groups; g++) {
        if (mp->group[g].n != other[g].n) {
            return false;
        }
        for (uint32_t i = 0; i < other[g].n; i++) {
            if (!ds_name_eq(mp->group[g].param[i].name, other[g].param[i].name)) {
                return false;
            }
        }
    }
    return true;
}

/* Takes the groups that the weights showed, and proves them once more by what can be read of all ranks. */
static bool merged_take(struct ds_rank *mp, struct ds_group *group, const char *how,
                        struct zf_err *err)
{
    bool same = merged_is_same(mp, group);

    mp->group = group;
    mp->placed = true;
    return ds_order_settle(mp, err) &&
           (same || zf_build_note(mp->save->b, err,
                                  "param_shapes does not show which parameters are in which group, "
                                  "or in what order, and zero_to_fp32.py of that release gives "
                                  "weights under wrong names: %s",
                                  how));
}

bool ds_merged_settle(struct ds_rank *mp, struct zf_err *err)
{
    struct ds_group *shown;
    struct zf_err first;

    if (mp->model.zenflow) {
        zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                "a ZenFlow save that names the parameters of all groups together is not "
                "supported: its weights prove no order");
        return zf_err_in(err, "%s", mp->model.path);
    }
    if (!ds_merged_by_storage(mp, &shown, err)) {
        return false;
    }
    if (shown) {
        return merged_take(mp, shown, "the storages in \"module\" do, and the weights prove it",
                           err);
    }
    if (ds_order_settle(mp, err)) {
        return true;
    }
    if (err->code != ZF_E_FORMAT) {
        return false;
    }
    first = *err;
    zf_err_clear(err);
    if (!ds_merged_by_value(mp, &shown, err)) {
        return !ds_err_named(err) && zf_err_in(err, "%s", mp->model.path);
    }
    if (!shown) {
        *err = first;
        return false;
    }
    return merged_take(mp, shown, "the weights in \"module\" prove it", err);
}
