/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO stages 1 and 2 and BF16_Optimizer: the parameters of a group are concatenated in one flat
 * buffer, which is cut into equal partitions.  Optimizer states have the same partitions; the padding
 * of the masters is trimmed when they are saved, that of the states not always.  Source:
 * deepspeed/runtime/zero/stage_1_and_2.py, bf16_optimizer.py, utils/zero_to_fp32.py,
 * 0.6.0 … 0.19.8. */
#include "vectors.h"

/* The flat buffer is padded to a multiple of this many elements per rank.  Source: zero_to_fp32.py
 * (zero2_align), stage_1_and_2.py (nccl_start_alignment_factor), since 0.5.2. */
#define ALIGN_TO_RANKS 2

bool zero12_lay(struct ds_save *ds, const struct ds_group *g, struct zf_flat_vector *out,
                struct zf_err *err)
{
    const struct ds_part *first = ds_group_first(g);
    struct zf_flat_part *part = zf_arena_get(ds->a, g->n_ranks, sizeof *part, err);

    if (first->pad && first->n_pads != g->n) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "param_alignment_paddings[%u] has %u entries for %u parameters", g->index,
                first->n_pads, g->n);
        return zf_err_in(err, "%s", ds_group_first(g)->path);
    }
    for (uint32_t r = 0; part && r < g->n_ranks; r++) {
        const struct ds_flat *f = &g->part[r]->master;

        part[r] = (struct zf_flat_part){.file = g->part[r]->path, .n = f->n, .lost = f->lost};
    }
    *out = (struct zf_flat_vector){
        .group = g->index, .n_params = g->n, .n_ranks = g->n_ranks, .len = g->len};
    return part && zf_flat_partitions(out, part, first->pad, ALIGN_TO_RANKS, ds->a, err);
}

/* ---- Muon keeps, on each rank, the full momentum of every parameter with elements in its partition.
 * Source: stage_1_and_2.py, 0.18 … 0.19.8. ---- */

struct touched {
    uint32_t first, end; /* ranks [first, end) */
};

static struct touched zero12_muon_touched(const struct zf_flat_vector *flat, uint32_t i)
{
    if (flat->len[i] == 0)
        return (struct touched){0, 0};
    return (struct touched){zf_flat_piece(flat, i, 0).rank,
                            zf_flat_piece(flat, i, flat->len[i] - 1).rank + 1};
}

static bool zero12_muon_is_whole(const struct zf_flat_vector *flat, const struct ds_vector *v,
                                 uint64_t *sum)
{
    for (uint32_t i = 0; i < flat->n_params; i++) {
        struct touched t = zero12_muon_touched(flat, i);

        for (uint32_t r = t.first; r < t.end; r++)
            sum[r] += flat->len[i];
    }
    for (uint32_t r = 0; r < flat->n_ranks; r++)
        if (!v->part[r]->lost && v->part[r]->n != sum[r])
            return false;
    return true;
}

/* Drafts each parameter from the first of its ranks that is not lost.  at[r]: elements before the
 * next parameter on rank r. */
static bool zero12_muon_place(struct ds_save *ds, const struct zf_flat_vector *flat,
                              const struct ds_vector *v, uint64_t *at, struct zf_err *err)
{
    for (uint32_t i = 0; i < flat->n_params; i++) {
        struct touched t = zero12_muon_touched(flat, i);
        struct zf_flat_piece p = {.rank = t.first, .n = flat->len[i]};
        struct ds_target to;

        while (p.rank + 1 < t.end && v->part[p.rank]->lost)
            p.rank++;
        p.at = at[p.rank];
        if (!vector_target(ds, v, i, &to, err) || (p.n > 0 && !vector_piece(v, &to, p, err)))
            return false;
        for (uint32_t r = t.first; r < t.end; r++)
            at[r] += flat->len[i];
    }
    return true;
}

/* ---- partitions ---- */

/* True if rank r has as many elements as its partition, with or without padding. */
static bool zero12_holds_partition(const struct zf_flat_vector *flat, const struct ds_vector *v,
                                   uint32_t r)
{
    uint64_t n = v->part[r]->n, cut = flat->begin[r + 1] - flat->begin[r];

    if (n == cut)
        return true;
    if (v->elastic)
        return false;
    /* begin[1]: length of the first partition, which is a full one unless it holds all data */
    if (n == flat->begin[1])
        return true;
    return n > cut && n - cut < (uint64_t)ALIGN_TO_RANKS * flat->n_ranks;
}

static bool zero12_place(struct ds_save *ds, void *ctx, const struct ds_vector *v,
                         struct zf_err *err)
{
    const struct zf_flat_vector *flat = ctx;
    const struct ds_group *g = v->group;
    bool state = v->key.n > 0, muon = ds_group_first(g)->muon;
    uint32_t ranks = 0, fits = 0, other = 0;

    for (uint32_t r = 0; r < flat->n_ranks; r++) {
        bool there = !v->part[r]->lost, same = there && zero12_holds_partition(flat, v, r);

        ranks += there;
        fits += same;
        other = there && !same ? r : other;
    }
    if (state && (muon || fits < ranks)) {
        uint64_t *sum = zf_arena_get(ds->a, 2ull * flat->n_ranks, sizeof *sum, err);

        if (!sum)
            return false;
        if (zero12_muon_is_whole(flat, v, sum))
            return zero12_muon_place(ds, flat, v, sum + flat->n_ranks, err);
    }
    if (fits == 0 && state) {
        return zf_build_note_on(ds->b, ZF_NOTE_LEFT_OUT, ds_group_first(g)->path, err,
                                "the optimizer state \"%.*s\" of group %u is left out: it has "
                                "another length than the weights",
                                (int)v->key.n, v->key.p, g->index);
    }
    if (fits < ranks) {
        return vector_refuse_length(v, other, flat->begin[other + 1] - flat->begin[other], fits,
                                    err);
    }
    return vector_place(ds, v, flat, err);
}

/* ZenFlow stores every matrix transposed in 0.18, and none in 0.19.  The strides of the 16-bit weights,
 * which are views of such a flat buffer, show which. */
static bool zero12_find_columns(struct ds_rank *mp, struct ds_param *p, struct zf_err *err)
{
    const struct ds_entry *e = ds_model_find(&mp->model, p->name);

    if (p->ndim != 2 || p->shape[0] <= 1 || p->shape[1] <= 1)
        return true;
    if (!e || !e->tensor || e->view.ndim != 2) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "the 16-bit weight \"%.*s\" is missing; without it zerofs cannot know how "
                       "ZenFlow stored its master",
                       (int)p->name.n, p->name.p);
    }
    p->columns = e->view.stride[0] == 1 && e->view.stride[1] == p->shape[0];
    return true;
}

bool ds_zero12_draft(struct ds_rank *mp, struct zf_err *err)
{
    struct zf_flat_vector flat;

    for (uint32_t g = 0; g < mp->n_groups; g++) {
        struct ds_group *group = &mp->group[g];

        for (uint32_t i = 0; mp->model.zenflow && i < group->n; i++)
            if (!zero12_find_columns(mp, &group->param[i], err))
                return false;
        if (!zero12_lay(mp->save, group, &flat, err) ||
            !vector_each(mp->save, group, zero12_place, &flat, err))
            return false;
    }
    return true;
}
