/* SPDX-License-Identifier: Apache-2.0 */
/* trained/: when an adapter is trained, every save still contains the whole model.  The trained
 * parameters are those of the optimizer's groups; all others are frozen, buffers, or aliases. */
#include "steps.h"

#include <string.h>

#include <zf/assemble/adapter.h>

static bool trained_is_in(const struct ds_rank *mp, const char *dir)
{
    return !mp->weights_only && (!*dir || strcmp(mp->tree, dir) == 0);
}

bool ds_trained_names(struct ds_save *ds, const struct ds_ranks *all, const char *dir,
                      struct ds_trained *out, struct zf_err *err)
{
    uint64_t n = 0;

    for (uint32_t r = 0; r < all->n; r++) {
        const struct ds_rank *mp = &all->rank[r];

        n += trained_is_in(mp, dir) ? mp->n_own : 0;
        for (uint32_t g = 0; trained_is_in(mp, dir) && g < mp->n_groups; g++)
            n += mp->group[g].n;
    }
    *out = (struct ds_trained){zf_arena_get(ds->a, n, sizeof *out->name, err), 0};
    for (uint32_t r = 0; out->name && r < all->n; r++) {
        const struct ds_rank *mp = &all->rank[r];

        for (uint32_t i = 0; trained_is_in(mp, dir) && i < mp->n_own; i++)
            out->name[out->n++] = mp->own[i];
        for (uint32_t g = 0; trained_is_in(mp, dir) && g < mp->n_groups; g++)
            for (uint32_t i = 0; i < mp->group[g].n; i++)
                out->name[out->n++] = mp->group[g].param[i].name;
    }
    if (out->name)
        ds_name_sort(out->name, out->n);
    return out->name != NULL;
}

/* Is there a weight that is not trained? */
static bool trained_is_part(struct zf_build *b, const char *dir, const struct ds_trained *t)
{
    struct zf_draft *tie;
    struct zf_spot s;
    uint64_t at = 0;

    while (zf_build_next(b, dir, &at, &s, &tie))
        if (!s.set[0] && !tie &&
            !ds_name_listed(t->name, t->n, (struct ds_name){s.name, (uint32_t)s.name_len}))
            return true;
    return false;
}

static bool trained_is(const void *ctx, const char *name, size_t n)
{
    const struct ds_trained *t = ctx;

    return ds_name_listed(t->name, t->n, (struct ds_name){name, (uint32_t)n});
}

static bool trained_show_tree(struct ds_save *ds, const struct ds_ranks *all, const char *dir,
                              struct zf_err *err)
{
    struct ds_trained t;
    bool ok = ds_trained_names(ds, all, dir, &t, err) && zf_build_prefix(ds->b, dir, err);
    bool part = ok && trained_is_part(ds->b, dir, &t);

    for (uint32_t i = 0; ok && part && i < t.n; i++) {
        struct zf_draft *d = zf_build_find(ds->b, ds_spot("", t.name[i]));
        bool twice = i > 0 && ds_name_eq(t.name[i - 1], t.name[i]);

        ok = !d || twice || zf_build_show(ds->b, ds_spot("trained", t.name[i]), d, err);
    }
    return ok && zf_build_prefix(ds->b, "", err) &&
           zf_adapters_show(ds->b, dir, ds->run == ds->st ? NULL : ds->run,
                            (struct zf_trained){trained_is, &t}, err);
}

bool ds_trained_show(struct ds_save *ds, const struct ds_ranks *all, struct zf_err *err)
{
    if (!trained_show_tree(ds, all, "", err))
        return false;
    for (uint32_t r = 0; r < all->n; r++)
        if (*all->rank[r].tree && !trained_show_tree(ds, all, all->rank[r].tree, err))
            return false;
    return true;
}
