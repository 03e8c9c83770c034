/* SPDX-License-Identifier: Apache-2.0 */
/* Saves without ZeRO: the model-states file holds the optimizer, whose fp32 masters have no names.
 * They stand in the order of `module`, group by group, so the next parameter of the right size
 * whose 16-bit weights are the rounded master is the one.  Where that does not work out, the
 * weights are those of `module`. Source: deepspeed/runtime/fp16/fused_optimizer.py,
 * unfused_optimizer.py, 0.18.9 and 0.19.8. */
#include "ds.h"

#include <string.h>

#include <zf/model/cast.h>

#define SAMPLE 4096u /* elements that are compared at the head of a parameter */

/* A master and where its states are. */
struct master {
    uint32_t entry; /* of module */
    struct zf_ds_view view;
    const struct zf_pv *state;
    uint64_t at; /* first element in the group's vector; 0 for masters of their own */
};

struct guess {
    struct zf_ds *ds;
    struct zf_torch *t;
    const uint32_t *tie;
    bool *used; /* [n_entries] */
    struct master *master;
    uint32_t n;
};

static bool is_candidate(const struct guess *q, uint32_t i)
{
    const struct zf_ds_model *m = &q->ds->model;
    const struct zf_ds_entry *e = &m->entry[i];

    for (uint32_t k = 0; k < m->n_buffers; k++) {
        if (zf_ds_name_eq(m->buffer[k], e->name)) {
            return false;
        }
    }
    return e->tensor && e->view.packed && e->view.n > 0 && q->tie[i] == i && !q->used[i] &&
           zf_dtype_info(e->view.dtype)->kind == 'f';
}

/* Are the weights of entry i what the master (n elements from v on) rounds to?
 * A failed read says no. */
static bool rounds_to(const struct guess *q, uint32_t i, const struct zf_ds_view *v)
{
    static const enum zf_dtype kinds[] = {ZF_DT_F32, ZF_DT_F16, ZF_DT_BF16};
    const struct zf_ds_view *w = &q->ds->model.entry[i].view;
    uint32_t wb = zf_dtype_info(w->dtype)->bytes, vb = zf_dtype_info(v->dtype)->bytes;
    size_t n = w->n < SAMPLE ? (size_t)w->n : SAMPLE;
    uint8_t have[4 * SAMPLE], master[8 * SAMPLE], rounded[4 * SAMPLE];
    struct zf_err err = {.code = ZF_OK};
    bool can = false;

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        can = can || kinds[k] == w->dtype;
    }
    if (!can || !zf_can_cast(v->dtype, w->dtype) || vb > 8 ||
        !zf_source_pread(w->src, have, n * wb, w->off, &err) ||
        !zf_source_pread(v->src, master, n * vb, v->off, &err)) {
        return false;
    }
    zf_cast(rounded, w->dtype, master, v->dtype, n);
    return memcmp(have, rounded, n * wb) == 0;
}

static bool take(struct guess *q, uint32_t i, const struct master *m)
{
    q->used[i] = true;
    q->master[q->n] = *m;
    q->master[q->n++].entry = i;
    return true;
}

/* fp32_groups: each master in its own shape.  False: no parameter fits one of them. */
static bool match_list(struct guess *q, const struct zf_pv *group, const struct zf_pv *ids,
                       const struct zf_pv *state)
{
    uint32_t i = 0, n = q->ds->model.n_entries;
    struct zf_err err = {.code = ZF_OK};

    for (uint64_t k = 0; k < zf_pv_len(group); k++) {
        struct master m = {0};
        uint64_t id;

        if (!zf_ds_view_of(q->ds, q->t, zf_pv_item(group, k), &m.view, &err) || !m.view.packed) {
            return false;
        }
        m.state = zf_pv_u64(zf_pv_item(ids, k), &id) ? zf_ds_by_id(state, id) : NULL;
        for (; i < n; i++) {
            const struct zf_ds_view *w = &q->ds->model.entry[i].view;

            if (is_candidate(q, i) && w->ndim == m.view.ndim && w->n == m.view.n &&
                memcmp(w->shape, m.view.shape, w->ndim * sizeof *w->shape) == 0 &&
                rounds_to(q, i, &m.view)) {
                break;
            }
        }
        if (i == n || !take(q, i, &m)) {
            return false;
        }
    }
    return true;
}

/* fp32_groups_flat: one vector a group, without padding. */
static bool match_flat(struct guess *q, const struct zf_pv *vector, const struct zf_pv *state)
{
    struct zf_err err = {.code = ZF_OK};
    struct master m = {.state = state};
    struct zf_ds_view whole;

    if (!zf_ds_view_of(q->ds, q->t, vector, &whole, &err) || whole.ndim != 1 || !whole.packed) {
        return false;
    }
    for (uint32_t i = 0; i < q->ds->model.n_entries && m.at < whole.n; i++) {
        const struct zf_ds_view *w = &q->ds->model.entry[i].view;

        m.view = whole;
        m.view.off += m.at * zf_dtype_info(whole.dtype)->bytes;
        m.view.n = w->n;
        m.view.ndim = w->ndim;
        m.view.shape = w->shape;
        if (is_candidate(q, i) && w->n <= whole.n - m.at && rounds_to(q, i, &m.view)) {
            take(q, i, &m);
            m.at += w->n;
        }
    }
    return m.at == whole.n;
}

static bool match_all(struct guess *q, const struct zf_pv *optim)
{
    const struct zf_pv *flat = zf_pv_get(optim, "fp32_groups_flat");
    const struct zf_pv *lists = zf_pv_get(optim, "fp32_groups");
    const struct zf_pv *inner = zf_pv_get(optim, "optimizer_state_dict");
    const struct zf_pv *state = zf_pv_get(inner, "state");
    const struct zf_pv *groups = zf_pv_get(inner, "param_groups");

    for (uint64_t g = 0; g < zf_pv_len(flat); g++) {
        if (!match_flat(q, zf_pv_item(flat, g), zf_ds_by_id(state, g))) {
            return false;
        }
    }
    for (uint64_t g = 0; !flat && g < zf_pv_len(lists); g++) {
        const struct zf_pv *ids = zf_pv_get(zf_pv_item(groups, g), "params");

        if (!match_list(q, zf_pv_item(lists, g), ids, state)) {
            return false;
        }
    }
    return q->n > 0;
}

/* One state of a master: as long as it, or as the whole group's vector, or a number for it. */
static bool draft_state(struct guess *q, const struct master *m, const struct zf_pv *key,
                        const struct zf_pv *v, struct zf_err *err)
{
    const struct zf_ds_name name = q->ds->model.entry[m->entry].name;
    struct zf_ds_name k;
    struct zf_ds_view s;
    const char *set;
    int64_t i;

    if (zf_pv_kind(key) != ZF_PV_STR) {
        return true;
    }
    if (!zf_ds_name_of(q->ds, key, "the optimizer's state", &k, err) ||
        !(set = zf_ds_optim_set(q->ds, k, err))) {
        return false;
    }
    if (zf_pv_kind(v) == ZF_PV_INT && zf_pv_int(v, &i)) {
        return zf_build_scalar(q->ds->b, set, name.p, name.n, ZF_DT_I64, &i, err);
    }
    if (zf_torch_kind(q->t, v) != ZF_TORCH_DENSE) {
        return true;
    }
    if (!zf_ds_view_of(q->ds, q->t, v, &s, err)) {
        return false;
    }
    if (s.ndim == 1 && s.packed && s.n >= m->at && s.n - m->at >= m->view.n) {
        s.off += m->at * zf_dtype_info(s.dtype)->bytes;
        s.n = m->view.n;
        s.ndim = m->view.ndim;
        s.shape = m->view.shape;
    }
    if (s.ndim > 0 && s.n != m->view.n) {
        return true;
    }
    return zf_ds_view_draft(q->ds, set, name, &s, err) != NULL;
}

static bool draft_master(struct guess *q, const struct master *m, struct zf_err *err)
{
    const struct zf_ds_name name = q->ds->model.entry[m->entry].name;

    if (!zf_ds_view_draft(q->ds, "", name, &m->view, err)) {
        return false;
    }
    for (uint64_t i = 0; zf_pv_is_map(m->state) && i < zf_pv_len(m->state); i++) {
        if (!draft_state(q, m, zf_pv_key(m->state, i), zf_pv_val(m->state, i), err)) {
            return false;
        }
    }
    return true;
}

bool zf_ds_zero0_draft(struct zf_ds *ds, struct zf_err *err)
{
    const struct zf_ds_model *m = &ds->model;
    struct guess q = {.ds = ds, .tie = zf_ds_ties_find(ds, m->entry, m->n_entries, err)};
    zf_auto(source) struct zf_source *src = zf_store_open(ds->st, m->path, err);
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, ds->o->lim, err) : NULL;
    const struct zf_pv *optim;

    q.t = t;
    q.used = zf_arena_get(ds->a, m->n_entries, sizeof *q.used, err);
    q.master = zf_arena_get(ds->a, m->n_entries, sizeof *q.master, err);
    if (!t || !q.tie || !q.used || !q.master) {
        return false;
    }
    optim = zf_pv_get(zf_torch_root(t), "optimizer");
    ds->plain = !match_all(&q, optim);
    if (zf_pv_kind(optim) == ZF_PV_NONE) {
        return true;
    }
    if (ds->plain) {
        return zf_build_note(ds->b, err,
                             "the optimizer's states are left out: they have no names, and do not "
                             "follow from the weights; the weights are those of \"module\"");
    }
    for (uint32_t i = 0; i < q.n; i++) {
        if (!draft_master(&q, &q.master[i], err)) {
            return false;
        }
    }
    return true;
}
