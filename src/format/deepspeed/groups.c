/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters in each flat buffer of a rank, and the data-parallel ranks that have a partition of
 * it: all of them, unless the group holds experts. */
#include "steps.h"

#include <zf/base/num.h>

/* Fills mp->group from the shapes of each of n groups. */
static bool groups_fill(struct ds_rank *mp, const struct ds_shapes *shapes, uint32_t n,
                        struct zf_err *err)
{
    mp->n_groups = n;
    mp->group = zf_arena_get(mp->save->a, n, sizeof *mp->group, err);
    for (uint32_t g = 0; mp->group && g < n; g++) {
        struct ds_group *group = &mp->group[g];

        *group = (struct ds_group){.index = g, .param = shapes[g].param, .n = shapes[g].n};
        group->len = zf_arena_get(mp->save->a, group->n, sizeof *group->len, err);
        if (!group->len)
            return false;
        for (uint32_t i = 0; i < group->n; i++)
            group->len[i] = group->param[i].n;
    }
    return mp->group != NULL;
}

bool ds_groups_count(const struct ds_rank *mp, uint32_t g, uint64_t *sum, struct zf_err *err)
{
    *sum = 0;
    for (uint32_t r = 0; r < mp->n_dp; r++) {
        const struct ds_optim *o = &mp->optim[r];
        uint32_t n_cuts = o->lost ? 0 : o->n_cuts ? o->n_cuts[g] : 1;

        for (uint32_t i = 0; i < n_cuts; i++) {
            if (!zf_add(*sum, o->part[g][i].master.n, sum)) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "the partitions of group %u have more than 2^64 elements", g);
            }
        }
    }
    return true;
}

/* Divides the single mapping of all groups' parameters, which releases before 0.5.4 recorded in the
 * order of the groups, by the lengths of the groups' flat buffers (stages 1 and 2; order.c proves it). */
static struct ds_shapes *groups_split(struct ds_rank *mp, const struct ds_shapes *all,
                                      uint32_t n_parts, struct zf_err *err)
{
    struct ds_shapes *out = zf_arena_get(mp->save->a, n_parts, sizeof *out, err);
    uint32_t next = 0;

    for (uint32_t g = 0; out && g < n_parts; g++) {
        uint64_t left;

        if (!ds_groups_count(mp, g, &left, err))
            return NULL;
        out[g].param = all->param + next;
        while (next < all->n && (all->param[next].n <= left || g == n_parts - 1)) {
            left -= all->param[next].n <= left ? all->param[next].n : left;
            next++;
        }
        out[g].n = (uint32_t)(all->param + next - out[g].param);
    }
    return out;
}

bool ds_groups_pick(struct ds_rank *mp, const struct ds_group *like, const uint32_t *which,
                    uint32_t n, struct ds_group *out, struct zf_err *err)
{
    *out = *like;
    out->n = n;
    out->param = zf_arena_get(mp->save->a, n, sizeof *out->param, err);
    out->len = zf_arena_get(mp->save->a, n, sizeof *out->len, err);
    for (uint32_t i = 0; out->param && out->len && i < n; i++) {
        out->param[i] = mp->merged->param[which[i]];
        out->len[i] = out->param[i].n;
    }
    return out->param && out->len;
}

/* A flat buffer with sub-partitions has the first one of each rank, then the second one of each
 * rank …  Source: deepspeed/runtime/zero/stage1.py (get_data_parallel_sub_partitions), 0.3.14. */
static bool groups_add_ranks(struct ds_rank *mp, const struct ds_optim *first, struct zf_err *err)
{
    for (uint32_t g = 0; g < mp->n_groups; g++) {
        uint64_t n = (uint64_t)mp->n_dp * (first->n_cuts ? first->n_cuts[g] : 1);
        const struct ds_part **part = zf_arena_get(mp->save->a, n, sizeof(*part), err);

        if (!part || n > UINT32_MAX)
            return part && zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "too many sub-partitions");
        for (uint64_t k = 0; k < n; k++)
            part[k] = ds_optim_part(&mp->optim[k % mp->n_dp], g, (uint32_t)(k / mp->n_dp));
        mp->group[g].part = part;
        mp->group[g].n_ranks = (uint32_t)n;
    }
    return true;
}

static bool groups_have_experts(const struct ds_rank *mp, const struct ds_optim *first)
{
    bool some = mp->model.moe || mp->model.n_fused > 0 || mp->expert.n_entries > 0;

    for (uint32_t g = 0; g < first->n_parts; g++) {
        some = some || first->part[g]->ranks ||
               (first->part[g]->partitions > 0 && first->part[g]->partitions < mp->n_dp);
    }
    return some && !first->n_cuts;
}

static bool groups_match(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_optim *first = rank_optim(mp);
    const struct ds_shapes *shapes = mp->model.has_shapes ? mp->model.group : first->group;
    uint32_t n = mp->model.has_shapes ? mp->model.n_groups : first->n_groups;

    /* releases before 0.19.3 write model-states files without ds_config for experts */
    mp->blocks = mp->model.blocks || first->config.blocks;
    if (!shapes && first->n_parts > 0 && first->part[0]->slice) {
        mp->by_slices = true;
        n = first->n_parts;
        if (!(shapes = ds_mappings_join(mp, n, err)))
            return false;
    }
    if (!shapes) {
        return zf_fail(
            err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
            "the save does not record the names of the parameters (\"%s\" has no param_shapes)",
            mp->model.path);
    }
    if (n == 1 && !mp->model.has_shapes && !mp->by_slices && !first->stage3) {
        mp->merged = shapes;
        n = first->n_parts;
        shapes = n > 1 ? groups_split(mp, shapes, n, err) : shapes;
    }
    if (shapes && n != first->n_parts) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%s\" lists the parameters of %u groups, but \"%s\" holds %u",
                       mp->model.path, n, first->path, first->n_parts);
    }
    if (!shapes || !groups_fill(mp, shapes, n, err) || !groups_add_ranks(mp, first, err) ||
        (groups_have_experts(mp, first) && !ds_experts_split(mp, err)) ||
        (mp->by_slices && !ds_mappings_shape(mp, err)))
        return false;
    if (first->stage3 != mp->save->dir.by_rank) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "\"%s\" was saved by %s, but \"%s\" was not: two saves are mixed in this directory",
            first->path, first->stage3 ? "ZeRO stage 3" : "ZeRO stage 1 or 2", mp->model.path);
    }
    return true;
}

/* The only data-parallel ranks of a universal checkpoint are those with a copied model-states file. */
static bool groups_universal(struct ds_rank *mp, struct zf_err *err)
{
    if (!mp->model.has_shapes) {
        zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                "a universal checkpoint without param_shapes is not supported");
        return zf_err_in(err, "%s", mp->model.path);
    }
    mp->n_dp = mp->n_model_files;
    return groups_fill(mp, mp->model.group, mp->model.n_groups, err);
}

bool ds_groups_make(struct ds_rank *mp, struct zf_err *err)
{
    if (mp->save->dir.universal)
        return groups_universal(mp, err);
    return mp->n_optim_files == 0 || groups_match(mp, err);
}
