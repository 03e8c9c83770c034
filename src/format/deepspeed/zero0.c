/* SPDX-License-Identifier: Apache-2.0 */
/* Saves without ZeRO: the model-states file holds the optimizer, whose fp32 masters have no names.
 * Their names are proved (masters.c).  A master that is no weight's is refused: serving the
 * 16-bit weights in its place would hide that something is damaged.  Where masters are only too
 * much alike to be told apart, the 16-bit weights are served, and a note says why. Source:
 * deepspeed/runtime/fp16/fused_optimizer.py, unfused_optimizer.py, 0.18.9 and 0.19.8. */
#include "steps.h"

#include <string.h>

#include <zf/assemble/degraded.h>

#include "masters.h"
#include "zero0_bare.h"

/* ---- what the optimizer holds ---- */

static bool zero0_read_view(struct ds_rank *mp, struct zf_torch *t, const struct zf_pv *v,
                            struct zf_tensor_ref *out, struct zf_err *err)
{
    if (!zf_tensor_ref_read(&mp->save->keep, t, v, out, err)) {
        return false;
    }
    return out->packed || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it is not packed");
}

/* fp32_groups_flat[g]: one vector, without padding. */
static bool zero0_read_vector(struct ds_guess *q, struct zf_torch *t, uint64_t g,
                              const struct zf_pv *v, const struct zf_pv *state, struct zf_err *err)
{
    struct zf_tensor_ref whole;

    if (!zero0_read_view(q->mp, t, v, &whole, err)) {
        return !ds_err_named(err) &&
               zf_err_in(err, "!fp32_groups_flat[%llu]", (unsigned long long)g);
    }
    if (whole.ndim != 1) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "fp32_groups_flat[%llu] has %u dimensions, expected a vector",
                       (unsigned long long)g, whole.ndim);
    }
    return ds_masters_cut(q, g, &whole, state, err);
}

/* fp32_groups[g]: each master in its own shape. */
static bool zero0_read_list(struct ds_guess *q, struct zf_torch *t, uint64_t g,
                            const struct zf_pv *list, const struct zf_pv *ids,
                            const struct zf_pv *state, struct zf_err *err)
{
    struct ds_masters *out = &q->group[g];
    uint64_t n = zf_pv_len(list), id;

    if (n > q->mp->model.n_entries) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "fp32_groups[%llu] has %llu masters, but \"module\" only %u names",
                       (unsigned long long)g, (unsigned long long)n, q->mp->model.n_entries);
    }
    out->m = zf_arena_get(q->mp->save->a, n, sizeof *out->m, err);
    for (uint64_t k = 0; out->m && k < n; k++) {
        struct ds_master *m = &out->m[out->n];

        if (!zero0_read_view(q->mp, t, zf_pv_item(list, k), &m->view, err)) {
            return !ds_err_named(err) && zf_err_in(err, "!fp32_groups[%llu][%llu]",
                                                   (unsigned long long)g, (unsigned long long)k);
        }
        m->state = zf_pv_u64(zf_pv_item(ids, k), &id) ? zf_pv_get_id(state, id) : NULL;
        out->n += m->view.n > 0; /* an empty master needs no name */
    }
    return out->m != NULL;
}

static bool zero0_read_all(struct ds_guess *q, struct zf_torch *t, const struct zf_pv *optim,
                           struct zf_err *err)
{
    const struct zf_pv *flat = zf_pv_get(optim, "fp32_groups_flat");
    const struct zf_pv *lists = zf_pv_get(optim, "fp32_groups");
    const struct zf_pv *inner = zf_pv_get(optim, "optimizer_state_dict");
    const struct zf_pv *state = zf_pv_get(inner, "state");
    const struct zf_pv *groups = zf_pv_get(inner, "param_groups");

    const bool vectors = zf_pv_len(flat) > 0;

    if (vectors && zf_pv_len(lists) > 0) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the optimizer has fp32_groups_flat and fp32_groups, expected one of them");
    }
    q->n_groups = zf_pv_len(vectors ? flat : lists);
    q->group = zf_arena_get(q->mp->save->a, q->n_groups, sizeof *q->group, err);
    for (uint64_t g = 0; q->group && !q->open.name[0] && g < q->n_groups; g++) {
        const struct zf_pv *ids = zf_pv_get(zf_pv_item(groups, g), "params");

        if (!(vectors ? zero0_read_vector(q, t, g, zf_pv_item(flat, g), zf_pv_get_id(state, g), err)
                      : zero0_read_list(q, t, g, zf_pv_item(lists, g), ids, state, err))) {
            return false;
        }
    }
    return q->group && (q->open.name[0] || ds_masters_settle(q, err));
}

/* Nothing is wrong with the masters, but which is whose is not known. */
static bool zero0_note_open(const struct ds_guess *q, struct zf_err *err)
{
    const struct ds_name *a = q->open.name[0], *b = q->open.name[1];

    q->mp->plain = true;
    return zf_build_note(q->mp->save->b, err,
                         "the fp32 masters and the optimizer's states are left out, and the "
                         "weights are those of 16 bits: a master of group %llu fits \"%.*s\" as "
                         "well as \"%.*s\", so no names are proven",
                         (unsigned long long)q->open.group, ds_name_shown(*a), a->p,
                         ds_name_shown(*b), b->p);
}

/* ---- drafting ---- */

/* One state of a master: as long as it, or as the whole group's vector, or a number for it. */
static bool zero0_draft_state(struct ds_guess *q, struct zf_torch *t, const struct ds_master *m,
                              const struct zf_pv *key, const struct zf_pv *v, struct zf_err *err)
{
    const struct ds_name name = q->mp->model.entry[m->entry].name;
    struct ds_name k;
    struct zf_tensor_ref s;
    const char *set;

    if (zf_pv_kind(key) != ZF_PV_STR) {
        return true;
    }
    if (!ds_name_of(q->mp->save->a, key, "the optimizer's state", &k, err) ||
        !(set = zf_path_encoded(q->mp->save->a, "optim", k.p, k.n, "", err))) {
        return false;
    }
    if (zf_pv_is_number(v)) {
        return zf_number_draft(q->mp->save->b, ds_spot(set, name), v, err);
    }
    if (zf_tensor_ref_odd(t, v, err)) {
        return zf_leave_out_at(q->mp->save->b, q->mp->model.path, ds_spot(set, name), err);
    }
    if (zf_torch_kind(t, v) != ZF_TORCH_DENSE) {
        return true;
    }
    if (!zf_tensor_ref_read(&q->mp->save->keep, t, v, &s, err)) {
        return false;
    }
    if (m->whole > 0 && s.ndim == 1 && s.packed && s.n == m->whole) {
        s.off += m->at * zf_dtype_info(s.dtype)->bytes;
        s.n = m->view.n;
        s.ndim = m->view.ndim;
        s.shape = m->view.shape;
    }
    if (s.ndim > 0 && s.n != m->view.n) {
        return zf_build_note(q->mp->save->b, err,
                             "the optimizer state \"%.*s\" of \"%.*s\" is left out: its length is "
                             "not that of the weight",
                             (int)(k.n < 80 ? k.n : 80), k.p, ds_name_shown(name), name.p);
    }
    const struct ds_apart_bytes at = {.src = s.src, .off = s.off, .what = k, .of = name};
    if (s.ndim > 0 && s.packed && !ds_apart_add(&q->states, &at, s.dtype, s.n, err)) {
        return false;
    }
    return zf_tensor_ref_draft(q->mp->save->b, ds_spot(set, name), &s, NULL, err) != NULL;
}

static bool zero0_draft_master(struct ds_guess *q, struct zf_torch *t, const struct ds_master *m,
                               struct zf_err *err)
{
    const struct ds_name name = q->mp->model.entry[m->entry].name;

    if (!zf_tensor_ref_draft(q->mp->save->b, ds_spot("", name), &m->view, NULL, err)) {
        return false;
    }
    for (uint64_t i = 0; zf_pv_is_map(m->state) && i < zf_pv_len(m->state); i++) {
        if (!zero0_draft_state(q, t, m, zf_pv_key(m->state, i), zf_pv_val(m->state, i), err)) {
            return false;
        }
    }
    return true;
}

static bool zero0_draft_masters(struct ds_guess *q, struct zf_torch *t, struct zf_err *err)
{
    q->mp->own = zf_arena_get(q->mp->save->a, q->mp->model.n_entries, sizeof *q->mp->own, err);
    if (!q->mp->own) {
        return false;
    }
    for (uint64_t g = 0; g < q->n_groups; g++) {
        for (uint32_t k = 0; k < q->group[g].n; k++) {
            if (!zero0_draft_master(q, t, &q->group[g].m[k], err)) {
                return false;
            }
            q->mp->own[q->mp->n_own++] = q->mp->model.entry[q->group[g].m[k].entry].name;
        }
    }
    return true;
}

bool ds_zero0_draft(struct ds_rank *mp, struct zf_err *err)
{
    struct ds_guess q = {.mp = mp};
    zf_auto(source) struct zf_source *src = zf_store_open(mp->save->st, mp->model.path, err);
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, mp->save->o->lim, err) : NULL;
    const struct zf_pv *optim = t ? zf_pv_get(zf_torch_root(t), "optimizer") : NULL;

    if (!t || !ds_masters_init(&q, err)) {
        return false;
    }
    if (mp->model.moe) {
        mp->plain = mp->numbered = true; /* numbered.c reads the experts' files */
        return true;
    }
    if (zf_pv_len(zf_pv_get(optim, "fp32_groups_flat")) == 0 &&
        zf_pv_len(zf_pv_get(optim, "fp32_groups")) == 0) {
        mp->plain = true;
        return ds_zero0_bare(&q, t, optim, err);
    }
    if (!zero0_read_all(&q, t, optim, err)) {
        return rank_leave_out(mp, err);
    }
    if (q.open.name[0]) {
        return zero0_note_open(&q, err);
    }
    bool ok = zero0_draft_masters(&q, t, err) &&
              (ds_apart_check(&q.states, err) || zf_err_in(err, "%s", mp->model.path));
    zf_vec_fini(&q.states);
    return ok;
}
