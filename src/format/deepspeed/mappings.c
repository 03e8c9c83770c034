/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's param_slice_mappings list the parameters in its partition in order, each with its first
 * element and length there; a parameter listed by two neighbours is split between them.  The mappings
 * have the declared order, even under round_robin_gradients, where the flat buffers have another one,
 * which order.c detects.
 * Source: deepspeed/runtime/zero/stage_1_and_2.py (_create_param_mapping), 0.7.4 … 0.19.8. */
#include "steps.h"

#include <string.h>

#include <zf/base/num.h>

/* Appends rank r's slices of group g. */
static bool mappings_add(const struct ds_optim *r, uint32_t g, struct ds_shapes *out,
                         struct zf_err *err)
{
    const struct ds_part *p = r->part[g];
    uint64_t next = 0;

    for (uint32_t i = 0; i < p->n_slices; i++) {
        const struct ds_slice *s = &p->slice[i];
        struct ds_param *last = out->n > 0 ? &out->param[out->n - 1] : NULL;

        if (s->start != next || !zf_add(next, s->n, &next)) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "by param_slice_mappings[%u], \"%.*s\" begins at element %llu, expected %llu",
                    g, (int)s->name.n, s->name.p, (unsigned long long)s->start,
                    (unsigned long long)next);
            return zf_err_in(err, "%s", r->path);
        }
        if (i > 0 || !last || !ds_name_eq(last->name, s->name)) {
            last = &out->param[out->n++];
            *last = (struct ds_param){.name = s->name, .ndim = 1};
        }
        if (!zf_add(last->n, s->n, &last->n)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the slices of \"%.*s\" have more than 2^64 elements", (int)s->name.n,
                           s->name.p);
        }
    }
    return true;
}

/* Do two ranks list the same slices? */
static bool mappings_same(const struct ds_part *a, const struct ds_part *b)
{
    bool same = a->n_slices == b->n_slices;

    for (uint32_t i = 0; same && i < a->n_slices; i++) {
        same = a->slice[i].start == b->slice[i].start && a->slice[i].n == b->slice[i].n &&
               ds_name_eq(a->slice[i].name, b->slice[i].name);
    }
    return same;
}

/* Checks the group's other flat buffers, which hold other experts under the same names. */
static bool mappings_check_sets(struct ds_rank *mp, uint32_t g, const uint32_t *first, uint32_t n,
                                struct zf_err *err)
{
    for (uint32_t e = 1; e < mp->n_dp / n; e++) {
        uint32_t k_n;
        const uint32_t *rank = ds_experts_ranks(mp, g, e, &k_n, err);

        for (uint32_t k = 0; rank && k < n; k++) {
            const struct ds_optim *a = &mp->optim[first[k]], *b = &mp->optim[rank[k]];

            if (!b->lost && !mappings_same(a->part[g], b->part[g])) {
                zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                        "param_slice_mappings[%u] differs from the one in \"%s\", which holds the "
                        "same part of other experts",
                        g, a->path);
                return zf_err_in(err, "%s", b->path);
            }
        }
        if (!rank)
            return false;
    }
    return true;
}

static bool mappings_join_group(struct ds_rank *mp, uint32_t g, struct ds_shapes *out,
                                struct zf_err *err)
{
    uint32_t n;
    const uint32_t *rank = ds_experts_ranks(mp, g, 0, &n, err);
    uint64_t most = 0;

    for (uint32_t k = 0; rank && k < n; k++) {
        const struct ds_optim *r = &mp->optim[rank[k]];

        if (r->lost) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the file of rank %u is lost, and no other file has the names of the "
                           "parameters of its partition",
                           rank[k]);
        }
        most += r->part[g]->n_slices;
    }
    out->param = rank ? zf_arena_get(mp->save->a, most, sizeof *out->param, err) : NULL;
    for (uint32_t k = 0; out->param && k < n; k++)
        if (!mappings_add(&mp->optim[rank[k]], g, out, err))
            return false;
    return out->param && mappings_check_sets(mp, g, rank, n, err);
}

struct ds_shapes *ds_mappings_join(struct ds_rank *mp, uint32_t n_groups, struct zf_err *err)
{
    struct ds_shapes *out = zf_arena_get(mp->save->a, n_groups, sizeof *out, err);

    for (uint32_t g = 0; out && g < n_groups; g++) {
        if (!mappings_join_group(mp, g, &out[g], err))
            return NULL;
        for (uint32_t i = 0; i < out[g].n; i++)
            out[g].param[i].shape = &out[g].param[i].n;
    }
    return out;
}

/* The entry for p, a parameter of a pipeline's tied module whose file is not assigned yet, or NULL. */
static const struct ds_param *mappings_tied(const struct ds_rank *mp, const struct ds_param *p)
{
    for (uint32_t i = 0; i < mp->tied.n; i++) {
        const struct ds_param *t = &mp->tied.param[i];

        if (t->n == p->n && ds_name_eq(t->name, p->name))
            return t;
    }
    return NULL;
}

bool ds_mappings_shape(struct ds_rank *mp, struct zf_err *err)
{
    for (uint32_t g = 0; g < mp->n_groups && !mp->optim_only; g++) {
        for (uint32_t i = 0; i < mp->group[g].n; i++) {
            struct ds_param *p = &mp->group[g].param[i];
            const struct ds_entry *e = p->whole ? NULL : ds_experts_weight(mp, p, 0);

            const struct ds_param *tied = e ? NULL : mappings_tied(mp, p);

            if (tied) {
                p->ndim = tied->ndim;
                p->shape = tied->shape;
                continue;
            }
            if (!e || !e->tensor || e->view.n != p->n) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "the shape of \"%.*s\" is not recorded, and there is no 16-bit "
                               "weight of its %llu elements",
                               (int)p->name.n, p->name.p, (unsigned long long)p->n);
            }
            p->ndim = e->view.ndim;
            p->shape = e->view.shape;
        }
    }
    return true;
}
