/* SPDX-License-Identifier: Apache-2.0 */
/* Notes for users who compare zerofs with the output of DeepSpeed's tools, where that is wrong.
 * Source: utils/zero_to_fp32.py (0.14.5 … 0.19.8), checkpoint/ds_to_universal.py,
 * runtime/zero/stage_1_and_2.py, and their output for real saves. */
#include "steps.h"

#include <stdlib.h>
#include <string.h>

/* First minor release that keeps integer buffers; earlier ones convert every buffer to float32. */
#define INTEGERS_KEPT 19

/* Notes param_slice_mappings in another order than the flat buffers: they have the declared order unless
 * there is padding between parameters. */
static bool warn_round_robin(struct ds_rank *mp, const struct ds_optim *first, struct zf_err *err)
{
    bool dealt = false;

    for (uint32_t g = 0; g < mp->n_groups; g++) {
        const struct ds_group *group = &mp->group[g];
        bool padded = false;

        for (uint32_t i = 0; i < first->part[group->index]->n_pads; i++)
            padded = padded || first->part[group->index]->pad[i] > 0;
        dealt = dealt || (!padded && group->n_ranks > 1 && group->n > group->n_ranks);
    }
    return !dealt || !mp->model.round_robin ||
           zf_build_note(mp->save->b, err,
                         "round_robin_gradients is on, so param_slice_mappings have another order "
                         "than the vectors; ds_to_universal.py and safe_get_full_* return "
                         "scrambled tensors from this save");
}

/* Stage 1 and BF16_Optimizer record no frozen parameters: zero_to_fp32.py drops them. */
static bool warn_frozen(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *m = &mp->model;
    const struct ds_ranks alone = {.rank = mp, .n = 1};
    struct ds_trained trained;
    uint32_t n = 0;
    bool ok = ds_trained_names(mp->save, &alone, "", &trained, err);

    for (uint32_t i = 0; ok && m->has_buffers && i < m->n_entries; i++) {
        const struct ds_entry *e = &m->entry[i];

        n += e->tensor && e->view.n > 0 && !ds_is_tie(m, i) &&
             !zf_names_extra_state(e->name.p, e->name.n) &&
             !ds_name_listed(m->buffer, m->n_buffers, e->name) &&
             !ds_name_listed(m->second, m->n_aliases, e->name) &&
             !ds_name_listed(trained.name, trained.n, e->name);
    }
    return ok &&
           (n == 0 || m->frozen.n > 0 ||
            zf_build_note(
                mp->save->b, err,
                "%u frozen parameters are only in \"module\"; zero_to_fp32.py leaves them out", n));
}

static bool warn_integers(struct ds_rank *mp, const char *version, struct zf_err *err)
{
    const struct ds_model *m = &mp->model;
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n_buffers; i++) {
        const struct ds_entry *e = ds_model_find(m, m->buffer[i]);

        n += e && e->tensor && zf_dtype_info(e->view.dtype)->kind != 'f';
    }
    if (n == 0 || version[0] != '0' || version[1] != '.' ||
        strtoul(version + 2, NULL, 10) >= INTEGERS_KEPT)
        return true;
    return zf_build_note(mp->save->b, err,
                         n == 1
                             ? "%u integer buffer keeps its type (zero_to_fp32.py of DeepSpeed "
                               "%.20s would convert it to float32)"
                             : "%u integer buffers keep their type (zero_to_fp32.py of DeepSpeed "
                               "%.20s would convert them to float32)",
                         n, version);
}

/* SuperOffload keeps the moments in another process, and a save does not fetch them.
 * Source: runtime/superoffload/superoffload_stage3.py, 0.18 … 0.19.8. */
static bool warn_super_offload(struct ds_rank *mp, const struct ds_optim *first, struct zf_err *err)
{
    bool some = false;

    for (uint32_t g = 0; g < first->n_parts; g++)
        for (uint32_t i = 0; i < first->part[g]->n_states; i++)
            some = some || first->part[g]->state[i].kind == ZF_DS_FLAT;
    return some || !mp->model.super_offload ||
           zf_build_note(mp->save->b, err,
                         "the optimizer's moments were not saved, because SuperOffload keeps them "
                         "in a separate process");
}

/* The optimizer's step count; false: there is none. */
static bool warn_read_step(const struct ds_optim *first, double *out)
{
    struct zf_err ignored;
    float f;

    for (uint32_t g = 0; g < first->n_parts; g++) {
        for (uint32_t i = 0; i < first->part[g]->n_states; i++) {
            const struct ds_state *s = &first->part[g]->state[i];

            if (s->key.n != 4 || memcmp(s->key.p, "step", 4) != 0)
                continue;
            if (s->kind == ZF_DS_INT || s->kind == ZF_DS_FLOAT) {
                *out = s->kind == ZF_DS_INT ? (double)s->i : s->f;
                return true;
            }
            if (s->kind == ZF_DS_SCALAR && s->flat.dtype == ZF_DT_F32 && s->flat.src &&
                zf_source_pread(s->flat.src, &f, sizeof f, s->flat.off, &ignored)) {
                *out = (double)f;
                return true;
            }
        }
    }
    return false;
}

bool ds_warn_steps(struct ds_save *ds, const struct ds_model *m, double optim, const char *file,
                   struct zf_err *err)
{
    int64_t model = m->steps - m->skipped;

    if (m->steps < 0 || (optim > (double)model - 2 && optim < (double)model + 2))
        return true;
    return zf_build_note(ds->b, err,
                         "the optimizer counted %.0f steps (\"%s\"), but the model %lld (\"%s\"): "
                         "the optimizer was restarted, or two saves are mixed",
                         optim, file, (long long)model, m->path);
}

bool ds_warn_note(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_optim *first = rank_optim(mp);
    double step;

    if (!first || mp->weights_only || mp->save->dir.universal)
        return true;
    return (first->stage3 ||
            (warn_round_robin(mp, first, err) && (first->stage == 2 || warn_frozen(mp, err)))) &&
           warn_super_offload(mp, first, err) &&
           (!warn_read_step(first, &step) ||
            ds_warn_steps(mp->save, &mp->model, step, first->path, err)) &&
           warn_integers(mp, first->version, err);
}
