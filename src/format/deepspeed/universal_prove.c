/* SPDX-License-Identifier: Apache-2.0 */
/* Proves a universal checkpoint.  The converter writes one file per parameter into a directory that may
 * hold older ones, and some releases convert wrongly: with round_robin_gradients the parameters are
 * scrambled, and with stage 3 (0.14.5 … 0.17) all sub-groups but the first.
 * Source: deepspeed/checkpoint/ds_to_universal.py (_save_optimizer_state, _save_optimizer_state_stage3),
 * 0.14.5 … 0.19.8, and their output for real saves. */
#include "steps.h"

#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>
#include <zf/assemble/values.h>
#include <zf/base/num.h>

#define STATE_FILE "zero/optimizer_state.pt"

/* Degraded: skips a comparison that needs lost bytes.  False for any other failure. */
static bool prove_skip(struct ds_save *ds, struct zf_err *err)
{
    if (!ds->o->degraded || err->code != ZF_E_IO)
        return false;
    zf_err_clear(err);
    return true;
}

static const char *prove_why(const struct ds_model *m)
{
    return m->round_robin ? "ds_to_universal.py scrambles saves with round_robin_gradients"
                          : "it belongs to another save, or was converted wrongly";
}

static uint64_t prove_elements(const struct zf_draft *d)
{
    uint64_t n = 0;

    return zf_elems(zf_draft_type(d).ndim, zf_draft_type(d).shape, &n) ? n : 0;
}

/* ---- stages 1 and 2 ---- */

/* Compares a master, rounded, with its weight in stored/.  If the padding of a vocabulary was cut off,
 * the master is compared with the beginning of the weight. */
static bool prove_rounds(struct ds_save *ds, const struct ds_rank *mp, struct ds_name name,
                         struct zf_err *err)
{
    struct zf_draft *master = zf_build_find(ds->b, ds_spot("", name));
    struct zf_draft *weight = zf_build_find(ds->b, ds_spot("stored", name));
    struct zf_mismatch miss;
    uint64_t n = master && weight ? prove_elements(master) : 0;

    if (n == 0 || n > prove_elements(weight) ||
        !zf_values_can_round(zf_draft_type(master).dtype, zf_draft_type(weight).dtype))
        return true;
    if (!zf_drafts_round_at((struct zf_draft_at){master, 0}, (struct zf_draft_at){weight, 0}, n,
                            ZF_VALUES_ENDS, &miss, err))
        return prove_skip(ds, err);
    return !miss.found ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "zero/%.*s/fp32.pt: element %llu is %.9g, which does not round to its weight "
                   "%.9g in \"module\" of \"%s\": %s",
                   ds_name_shown(name), name.p, (unsigned long long)miss.at, miss.master,
                   miss.weight, mp->model.path, prove_why(&mp->model));
}

static bool prove_all_round(struct ds_save *ds, const struct ds_rank *mp, struct zf_err *err)
{
    for (uint32_t g = 0; !mp->model.zenflow && g < mp->n_groups; g++) {
        for (uint32_t i = 0; i < mp->group[g].n; i++)
            if (!prove_rounds(ds, mp, mp->group[g].param[i].name, err))
                return false;
    }
    return true;
}

/* ---- stage 3 ---- */

/* Rank 0's partition of one state (or the masters) of a group. */
struct prove_vector {
    const struct ds_group *group;
    const char *set; /* the tree path of the converted tensors to compare */
    struct ds_name key;
    struct zf_draft *flat;
    uint64_t ranks;
    uint64_t proved; /* parameters */
};

static bool prove_slots(struct ds_save *ds, struct prove_vector *v, struct zf_err *err)
{
    struct zf_mismatch miss;
    uint64_t at = 0;

    for (uint32_t i = 0; i < v->group->n; i++) {
        const struct ds_param *p = &v->group->param[i];
        uint64_t slot = p->n / v->ranks + (p->n % v->ranks != 0);
        struct zf_draft *d = zf_build_find(ds->b, ds_spot(v->set, p->name));

        miss.found = false;
        if (d && prove_elements(d) == p->n &&
            zf_values_can_round(zf_draft_type(v->flat).dtype, zf_draft_type(d).dtype)) {
            if (zf_drafts_round_at((struct zf_draft_at){v->flat, at}, (struct zf_draft_at){d, 0},
                                   slot, ZF_VALUES_ENDS, &miss, err))
                v->proved++;
            else if (!prove_skip(ds, err))
                return false;
        }
        if (miss.found) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "zero/%.*s/%.*s.pt: element %llu is %.9g, but %.9g in " STATE_FILE
                           ": it belongs to another save, or was converted wrongly (DeepSpeed "
                           "before 0.18 converted several sub-groups wrongly)",
                           ds_name_shown(p->name), p->name.p, (int)(v->key.n < 40 ? v->key.n : 40),
                           v->key.p, (unsigned long long)miss.at, miss.weight, miss.master);
        }
        at += slot;
    }
    return true;
}

/* The length of rank 0's partition of the group; 0: beyond 64 bits. */
static uint64_t prove_length(const struct ds_group *g, uint64_t ranks)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < g->n; i++)
        if (!zf_add(n, g->param[i].n / ranks + (g->param[i].n % ranks != 0), &n))
            return 0;
    return n;
}

/* Records that the bytes of a slot equal the first ones of a converted tensor, so that zerofs verify compares all. */
struct prove_copies {
    struct zf_build *b;
    struct zf_source *flat;
    uint64_t at, end; /* bytes of `flat` that are not recorded yet */
    struct zf_err *err;
};

static bool prove_record(void *ctx, struct zf_source *src, uint64_t off, uint64_t n)
{
    struct prove_copies *c = ctx;
    const struct zf_copy copy = {
        .src = {src, c->flat}, .off = {off, c->at}, .n = n < c->end - c->at ? n : c->end - c->at};

    c->at += copy.n;
    return copy.n == 0 || !src || zf_build_copy(c->b, &copy, c->err);
}

static bool prove_record_slots(struct ds_save *ds, const struct prove_vector *v,
                               const struct zf_tensor_ref *flat, struct zf_err *err)
{
    const uint64_t size = zf_dtype_info(flat->dtype)->bytes;
    uint64_t at = flat->off;

    for (uint32_t i = 0; i < v->group->n; i++) {
        const struct ds_param *p = &v->group->param[i];
        const uint64_t slot = (p->n / v->ranks + (p->n % v->ranks != 0)) * size;
        struct zf_draft *d = zf_build_find(ds->b, ds_spot(v->set, p->name));
        struct prove_copies c = {ds->b, flat->src, at, at + slot, err};

        at += slot;
        if (d && prove_elements(d) == p->n && zf_draft_type(d).dtype == flat->dtype &&
            !zf_draft_runs(d, 0, slot / size, prove_record, &c, err))
            return false;
    }
    return true;
}

/* Compares `value`, if it is a tensor as long as rank 0's partition. */
static bool prove_value(struct ds_save *ds, struct zf_torch *t, const struct zf_pv *value,
                        struct prove_vector *v, struct zf_err *err)
{
    struct zf_tensor_ref ref;
    bool ok;

    if (zf_torch_kind(t, value) != ZF_TORCH_DENSE)
        return true;
    if (!zf_tensor_ref_read(&ds->keep, t, value, &ref, err))
        return false;
    if (ref.ndim != 1 || ref.n == 0 || ref.n != prove_length(v->group, v->ranks))
        return true;
    if (!zf_build_mark(ds->b, err))
        return false;
    v->flat = zf_tensor_ref_draft(ds->b, ds_spot("bucket/prove", v->key), &ref, STATE_FILE, err);
    ok = v->flat && prove_slots(ds, v, err);
    zf_build_undo(ds->b);
    return ok && (!zf_build_records_copies(ds->b) || prove_record_slots(ds, v, &ref, err));
}

/* Compares masters and states of group g.  *n: parameters whose masters were compared so far. */
static bool prove_group(struct ds_save *ds, struct zf_torch *t, const struct ds_rank *mp,
                        uint32_t g, uint64_t *n, struct zf_err *err)
{
    const struct zf_pv *root = zf_torch_root(t);
    const struct zf_pv *masters = zf_pv_get(root, "fp32_flat_groups");
    const struct zf_pv *states =
        zf_pv_get_id(zf_pv_get(zf_pv_get(root, "optimizer_state_dict"), "state"), g);
    struct prove_vector v = {
        .group = &mp->group[g], .set = "", .key = {"fp32", 4}, .ranks = mp->n_dp};

    if (!prove_value(ds, t, zf_pv_item(masters, g), &v, err))
        return false;
    *n += v.proved;
    for (uint64_t i = 0; zf_pv_is_map(states) && i < zf_pv_len(states); i++) {
        if (zf_pv_kind(zf_pv_key(states, i)) != ZF_PV_STR)
            continue;
        if (!ds_name_of(ds->a, zf_pv_key(states, i), "the optimizer's state", &v.key, err) ||
            !(v.set = zf_path_encoded(ds->a, "optim", v.key.p, v.key.n, "", err)) ||
            !prove_value(ds, t, zf_pv_val(states, i), &v, err))
            return false;
    }
    return true;
}

/* Compares the step of the first group with that in the copied model-states files. */
static bool prove_step(struct ds_save *ds, struct zf_torch *t, const struct ds_rank *mp,
                       struct zf_err *err)
{
    const struct zf_pv *states =
        zf_pv_get(zf_pv_get(zf_torch_root(t), "optimizer_state_dict"), "state");
    const struct zf_pv *step = zf_pv_get(zf_pv_get_id(states, 0), "step");
    struct zf_tensor_ref ref;
    int64_t i;
    float f;

    if (zf_pv_kind(step) == ZF_PV_INT && zf_pv_int(step, &i))
        return ds_warn_steps(ds, &mp->model, (double)i, STATE_FILE, err);
    if (zf_torch_kind(t, step) != ZF_TORCH_DENSE)
        return true;
    if (!zf_tensor_ref_read(&ds->keep, t, step, &ref, err))
        return false;
    if (ref.dtype != ZF_DT_F32 || ref.n != 1)
        return true;
    return zf_source_pread(ref.src, &f, sizeof f, ref.off, err)
               ? ds_warn_steps(ds, &mp->model, (double)f, STATE_FILE, err)
               : prove_skip(ds, err);
}

static bool prove_vectors(struct ds_save *ds, struct zf_torch *t, const struct ds_rank *mp,
                          uint64_t *n, struct zf_err *err)
{
    uint64_t ranks;

    if (!zf_pv_u64(zf_pv_get(zf_torch_root(t), "partition_count"), &ranks) || ranks != mp->n_dp ||
        zf_pv_len(zf_pv_get(zf_torch_root(t), "fp32_flat_groups")) != mp->n_groups)
        return true;
    for (uint32_t g = 0; g < mp->n_groups; g++)
        if (!prove_group(ds, t, mp, g, n, err))
            return false;
    return prove_step(ds, t, mp, err);
}

/* 0.14.5 … 0.17 converted only the first sub-group of stage 3 correctly (DeepSpeed 7585).  Only the
 * version that saved is recorded; usually the same one converted. */
static bool prove_note(struct ds_save *ds, const struct ds_rank *mp, uint64_t proved,
                       struct zf_err *err)
{
    const struct ds_model *m = &mp->model;
    uint64_t all = 0;

    for (uint32_t g = 0; g < mp->n_groups; g++)
        all += mp->group[g].n;
    if (mp->n_groups < 2 || m->minor < 14 || m->minor > 17 || (m->minor == 14 && m->patch < 5))
        return true;
    return zf_build_note(ds->b, err,
                         "ds_to_universal.py of DeepSpeed 0.14.5 to 0.17 scrambles stage 3 with "
                         "several sub-groups, and this save is from 0.%u.%u and has %u: %s",
                         m->minor, m->patch, mp->n_groups,
                         proved == all ? "the beginning of every parameter agrees with " STATE_FILE
                                       : "nothing proves that its parameters are right");
}

/* The converter writes this file for every stage, and DeepSpeed loads nothing without it.
 * Source: deepspeed/runtime/base_optimizer.py, load_hp_checkpoint_state_from_checkpoint_dir (0.14.5 … 0.19.8). */
static bool prove_missing(struct ds_save *ds, struct zf_err *err)
{
    char is[ZF_ABSENT_MAX];

    return zf_build_note_on(ds->b, ZF_NOTE_BROKEN, STATE_FILE, err,
                            STATE_FILE " %s: ds_to_universal.py writes it, and without it "
                                       "DeepSpeed does not load the checkpoint",
                            zf_absent(ds->st, STATE_FILE, is));
}

bool ds_universal_prove(struct ds_save *ds, const struct ds_ranks *all, struct zf_err *err)
{
    uint64_t proved = 0;

    for (uint32_t i = 0; i < all->n; i++)
        if (!prove_all_round(ds, &all->rank[i], err))
            return false;
    const bool there = zf_store_find(ds->st, STATE_FILE) != NULL;
    zf_auto(source) struct zf_source *src = there ? zf_store_open(ds->st, STATE_FILE, err) : NULL;
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, ds->o->lim, err) : NULL;

    if (!t && !(there ? zf_forgive(ds->b, err) : prove_missing(ds, err)))
        return false;
    return !ds->dir.by_rank || all->n == 0 ||
           ((!t || ds->dir.n_mp > 1 || prove_vectors(ds, t, &all->rank[0], &proved, err)) &&
            prove_note(ds, &all->rank[0], proved, err));
}
