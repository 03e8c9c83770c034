/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameters each flat vector holds, and which ranks have a part of it: all data-parallel
 * ranks, as long as no group holds experts. */
#include "groups.h"

#include <zf/base/num.h>

/* Fills ds->group from the shapes of each of n groups. */
static bool groups_fill(struct zf_ds *ds, const struct zf_ds_shapes *shapes, uint32_t n,
                        struct zf_err *err)
{
    ds->n_groups = n;
    ds->group = zf_arena_get(ds->a, n, sizeof *ds->group, err);
    for (uint32_t g = 0; ds->group && g < n; g++) {
        struct ds_group *group = &ds->group[g];

        *group = (struct ds_group){.index = g, .param = shapes[g].param, .n = shapes[g].n};
        group->len = zf_arena_get(ds->a, group->n, sizeof *group->len, err);
        if (!group->len) {
            return false;
        }
        for (uint32_t i = 0; i < group->n; i++) {
            group->len[i] = group->param[i].n;
        }
    }
    return ds->group != NULL;
}

/* Releases before 0.5.4 recorded the parameters of all groups as one mapping, in the order of the
 * groups: divides it by the lengths of the groups' vectors (stages 1 and 2; order.c has the proof). */
static struct zf_ds_shapes *groups_split(struct zf_ds *ds, const struct zf_ds_shapes *all,
                                         uint32_t n_parts, struct zf_err *err)
{
    struct zf_ds_shapes *out = zf_arena_get(ds->a, n_parts, sizeof *out, err);
    uint32_t next = 0;

    for (uint32_t g = 0; out && g < n_parts; g++) {
        uint64_t left = 0;

        for (uint32_t r = 0; r < ds->n_ranks; r++) {
            uint64_t n = ds->rank[r].lost ? 0 : ds->rank[r].part[g].master.n;

            if (!zf_add(left, n, &left)) {
                zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                        "the partitions of group %u have more than 2^64 elements", g);
                return NULL;
            }
        }
        out[g].param = all->param + next;
        while (next < all->n && (all->param[next].n <= left || g == n_parts - 1)) {
            left -= all->param[next].n <= left ? all->param[next].n : left;
            next++;
        }
        out[g].n = (uint32_t)(all->param + next - out[g].param);
    }
    return out;
}

bool groups_make(struct zf_ds *ds, struct zf_err *err)
{
    return groups_fill(ds, ds->model.group, ds->model.n_groups, err);
}

static bool groups_add_ranks(struct zf_ds *ds, struct zf_err *err)
{
    const struct zf_ds_rank **rank = zf_arena_get(ds->a, ds->n_ranks, sizeof(*rank), err);

    for (uint32_t r = 0; rank && r < ds->n_ranks; r++) {
        rank[r] = &ds->rank[r];
    }
    for (uint32_t g = 0; rank && g < ds->n_groups; g++) {
        ds->group[g].rank = rank;
        ds->group[g].n_ranks = ds->n_ranks;
    }
    return rank != NULL;
}

bool groups_match(struct zf_ds *ds, struct zf_err *err)
{
    const struct zf_ds_rank *first = ds->rank;

    while (first->lost) {
        first++;
    }
    const struct zf_ds_shapes *shapes = ds->model.has_shapes ? ds->model.group : first->group;
    uint32_t n = ds->model.has_shapes ? ds->model.n_groups : first->n_groups;
    if (!shapes) {
        return zf_fail(
            err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
            "no file says how the parameters are called (there is no param_shapes in \"%s\")",
            ds->model.path);
    }
    if (n == 1 && !ds->model.has_shapes && !first->sliced && first->n_parts > 1) {
        n = first->n_parts;
        shapes = groups_split(ds, shapes, n, err);
    }
    if (!shapes || !groups_fill(ds, shapes, n, err) || !groups_add_ranks(ds, err)) {
        return false;
    }
    if (n != first->n_parts) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%s\" names the parameters of %u groups, but \"%s\" holds %u",
                       ds->model.path, n, first->path, first->n_parts);
    }
    if (first->sliced != ds->dir.by_rank) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%s\" is of %s, but \"%s\" is not: two saves are mixed in this directory",
                       first->path, first->sliced ? "ZeRO stage 3" : "ZeRO stage 1 or 2",
                       ds->model.path);
    }
    return true;
}
