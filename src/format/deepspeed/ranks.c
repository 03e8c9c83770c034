/* SPDX-License-Identifier: Apache-2.0 */
/* Model-parallel ranks: mp_rank = pipeline stage * tp + tensor-parallel rank.  The degrees are recorded since
 * 0.19.5; before, the names of layer files show tp, and without a pipeline all ranks are tensor-parallel.
 * Source: deepspeed/runtime/pipe/topology.py (PipeModelDataParallelTopology), engine.py,
 * 0.6.0 … 0.19.8. */
#include "steps.h"

#include <stdio.h>

#include <zf/assemble/degraded.h>

/* The number of files of rank `mp` at the beginning of the sorted list f[n]. */
static uint32_t ranks_run(const struct ds_file *f, uint32_t n, uint32_t mp)
{
    uint32_t k = 0;

    while (k < n && f[k].mp == mp)
        k++;
    return k;
}

static bool ranks_absent(struct ds_save *ds, uint32_t mp, struct zf_err *err)
{
    if (ds->o->degraded)
        return zf_build_note(ds->b, err, "the files of model-parallel rank %u are missing", mp);
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the files of model-parallel rank %u (mp_rank_%02u) are missing, although rank "
                   "%u has files",
                   mp, mp, ds->dir.n_mp - 1);
}

bool ds_ranks_list(struct ds_save *ds, struct ds_ranks *out, struct zf_err *err)
{
    const struct ds_file *m = ds->dir.model, *o = ds->dir.optim;
    uint32_t n_m = ds->dir.n_model, n_o = ds->dir.n_optim, next = 0;

    *out = (struct ds_ranks){0};
    out->rank = zf_arena_get(ds->a, (uint64_t)n_m + n_o, sizeof *out->rank, err);
    while (out->rank && n_m + n_o > 0) {
        uint32_t mp = n_o == 0 || (n_m > 0 && m->mp <= o->mp) ? m->mp : o->mp;
        uint32_t k_m = ranks_run(m, n_m, mp), k_o = ranks_run(o, n_o, mp);

        if (mp != next && !ranks_absent(ds, next, err))
            return false;
        struct ds_rank *r = &out->rank[out->n++];

        *r = (struct ds_rank){.save = ds,
                              .mp = mp,
                              .model_file = m,
                              .n_model_files = k_m,
                              .optim_file = o,
                              .n_optim_files = k_o};
        if (ds->dir.n_mp > 1)
            (void)snprintf(r->tree, sizeof r->tree, "mp_rank_%02u", mp);
        m += k_m;
        n_m -= k_m;
        o += k_o;
        n_o -= k_o;
        next = mp + 1;
    }
    return out->rank != NULL;
}

const struct ds_rank *ds_ranks_first(const struct ds_ranks *all)
{
    uint32_t i = 0;

    while (i < all->n && all->rank[i].lost)
        i++;
    return i < all->n ? &all->rank[i] : NULL;
}

/* Keeps a pipeline stage without model states.  If its optimizer files do not name the parameters of
 * their partitions (param_slice_mappings), only the weights in its layer files are shown. */
static void ranks_keep_stage(struct ds_rank *mp)
{
    bool named = rank_optim(mp) != NULL;

    mp->model.pipeline = true;
    for (uint32_t r = 0; named && r < mp->n_dp; r++) {
        const struct ds_optim *o = &mp->optim[r];

        named = !o->lost && o->n_parts > 0 && o->part[0]->slice;
    }
    if (!named) {
        mp->weights_only = true;
        mp->n_optim_files = 0;
        mp->optim = NULL;
        mp->n_dp = 0;
    }
}

/* Keeps a single rank without model states if its optimizer files name its parameters: before 0.6 in
 * param_shapes, since 0.7.4 in param_slice_mappings, which lack the shapes, so each parameter is shown
 * flat below bucket/.  Not possible under stage 3 (slots of unknown lengths), with ZenFlow (matrices may
 * be transposed), and with experts (their indices are in the model states). */
static bool ranks_keep_alone(struct ds_save *ds, struct ds_rank *mp, bool *kept, struct zf_err *err)
{
    const struct ds_optim *first = rank_optim(mp);
    bool experts = ds->dir.n_experts > 0;

    *kept = false;
    if (!first || ds->dir.n_layers > 0)
        return true;
    for (uint32_t g = 0; g < first->n_parts; g++) {
        experts = experts || first->part[g]->moe ||
                  (first->part[g]->partitions > 0 && first->part[g]->partitions < mp->n_dp);
    }
    if (first->stage3 || experts || first->n_parts == 0 || first->config.zenflow ||
        (!first->part[0]->slice && first->n_groups == 0))
        return true;
    *kept = true;
    mp->lost = false;
    mp->optim_only = true;
    mp->model.round_robin = !first->config.known || first->config.round_robin;
    if (first->n_groups == 0)
        (void)snprintf(mp->tree, sizeof mp->tree, "bucket");
    return zf_build_note(
        ds->b, err,
        first->n_groups > 0 ? "no model-states file can be read: only the parameters that the "
                              "optimizer trained are shown, under the names in its files; frozen "
                              "parameters, buffers and the 16-bit weights are lost"
                            : "no model-states file can be read: bucket/ has the parameters that "
                              "the optimizer trained, each as one vector, because their shapes are "
                              "lost; frozen parameters, buffers and the 16-bit weights are lost");
}

bool ds_ranks_drop(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err)
{
    const struct ds_rank *first = ds_ranks_first(all);
    uint32_t kept = 0;

    if (!first && all->n == 1 && ds->dir.n_mp == 1) {
        bool here;

        if (!ranks_keep_alone(ds, all->rank, &here, err) || here)
            return here;
    }
    if (!first) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "no model-states file can be read, and no other file has the shapes of the "
                "parameters%s",
                all->n > 0 && rank_optim(all->rank) && rank_optim(all->rank)->stage3
                    ? " or their places in the vectors of ZeRO stage 3"
                    : "");
        return all->n > 0 && zf_err_in(err, "%s", all->rank[0].model.path);
    }
    const bool pipeline = first->model.pipeline && !ds->dir.universal;
    for (uint32_t i = 0; i < all->n; i++) {
        struct ds_rank *mp = &all->rank[i];

        if (mp->lost && pipeline)
            ranks_keep_stage(mp);
        else if (mp->lost && !zf_build_note_on(ds->b, ZF_NOTE_LEFT_OUT, NULL, err,
                                               "%s is left out: the names of its parameters were "
                                               "in its model-states file, which is lost",
                                               mp->tree))
            return false;
    }
    for (uint32_t i = 0; i < all->n; i++) {
        struct ds_rank *mp = &all->rank[i];

        if (mp->lost && !pipeline) {
            zf_agree_free(mp->model_values);
            zf_agree_free(mp->optim_values);
        } else {
            all->rank[kept++] = *mp;
        }
    }
    all->n = kept;
    return true;
}

/* Sets tp and pp from the recorded degrees, or else from the file names. */
static bool ranks_degrees(struct ds_save *ds, const struct ds_model *m, struct zf_err *err)
{
    const struct ds_dir *d = &ds->dir;
    uint32_t n_layer_tp = d->n_layers && d->layer_model ? d->layer[d->n_layers - 1].mp + 1 : 1;

    if (m->tp > 0) {
        ds->tp = m->tp;
        ds->pp = m->pp;
    } else if (m->pipeline || d->n_layers > 0) {
        ds->tp = n_layer_tp;
        ds->pp = d->n_mp / ds->tp;
    } else {
        ds->tp = d->n_mp;
        ds->pp = 1;
    }
    if ((uint64_t)ds->tp * ds->pp != d->n_mp) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "%u tensor-parallel ranks times %u pipeline stages are not the %u model-parallel "
                "ranks that have files",
                ds->tp, ds->pp, d->n_mp);
        return zf_err_in(err, "%s", m->path);
    }
    if (d->n_layers > 0 && ds->tp != n_layer_tp) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "there are %u tensor-parallel ranks, but layer files of %u", ds->tp, n_layer_tp);
        return zf_err_in(err, "%s", d->layer[d->n_layers - 1].path);
    }
    return true;
}

/* Degraded: adds the last ranks, which have no files but are counted in those of the first ranks. */
static void ranks_widen(struct ds_save *ds, struct ds_ranks *all, const struct ds_model *m)
{
    uint64_t n = ds_model_ranks(m);

    if (n <= ds->dir.n_mp || n > UINT32_MAX / 2)
        return;
    ds->dir.n_mp = (uint32_t)n;
    for (uint32_t i = 0; i < all->n; i++) {
        (void)snprintf(all->rank[i].tree, sizeof all->rank[i].tree, "mp_rank_%02u",
                       all->rank[i].mp);
    }
}

/* Only the first rank's affine map is used to join the ranks, so the maps of all must be equal. */
static bool ranks_same_maps(const struct ds_ranks *all, struct zf_err *err)
{
    const struct ds_rank *first = NULL; /* first rank of the stage */

    for (uint32_t i = 0; i < all->n; i++) {
        const struct ds_rank *mp = &all->rank[i];

        if (mp->lost)
            continue;
        if (!first || first->stage != mp->stage)
            first = mp;
        if (mp->model.affine != first->model.affine) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "its affine_map differs from the one in \"%s\": two saves are mixed",
                    first->model.path);
            return zf_err_in(err, "%s", mp->model.path);
        }
    }
    return true;
}

bool ds_ranks_mesh(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err)
{
    const struct ds_model *first = &ds_ranks_first(all)->model;

    if (first->mp_world > 0 && first->mp_world != ds->dir.n_mp) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "mp_world_size is %llu, but there are files of %u model-parallel ranks",
                (unsigned long long)first->mp_world, ds->dir.n_mp);
        (void)zf_err_in(err, "%s", first->path);
        if (!zf_forgive(ds->b, err))
            return false;
    }
    if (ds->o->degraded)
        ranks_widen(ds, all, first);
    if (!ranks_degrees(ds, first, err))
        return false;
    for (uint32_t i = 0; i < all->n; i++) {
        struct ds_rank *mp = &all->rank[i];

        mp->stage = mp->mp / ds->tp;
        mp->tensor = mp->mp % ds->tp;
    }
    return ranks_same_maps(all, err);
}

void ds_ranks_fini(struct ds_ranks *all)
{
    for (uint32_t i = 0; i < all->n; i++) {
        zf_agree_free(all->rank[i].model_values);
        zf_agree_free(all->rank[i].optim_values);
    }
}
