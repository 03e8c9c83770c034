/* SPDX-License-Identifier: Apache-2.0 */
/* layer_M_expert_E_mp_rank_NN_model_states.pt (before 0.6: expert_E_…): the 16-bit weights of one
 * expert, under the number that it has in the whole model.  The model-states file has none of them.
 * AutoEP, whose masters are one tensor a layer, gives each of its slices as <name>.<E>.
 * Source: deepspeed/runtime/engine.py (_save_moe_checkpoint, _get_expert_ckpt_name), 0.5.0 …
 * 0.19.8. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>

#define NATIVE ".deepspeed_moe.experts.deepspeed_experts."

/* Takes a decimal number off the front of p[n]. */
static uint32_t experts_digits(const char *p, uint32_t n, uint32_t *out)
{
    uint64_t v = 0;
    uint32_t k = 0;

    for (; k < n && k < 9 && p[k] >= '0' && p[k] <= '9'; k++) {
        v = 10 * v + (uint64_t)(p[k] - '0');
    }
    *out = (uint32_t)v;
    return k;
}

bool ds_expert_name(struct ds_name name, struct ds_expert_name *out)
{
    const char *at = memmem(name.p, name.n, NATIVE, sizeof NATIVE - 1);
    uint32_t begin, digits;

    if (!at) {
        return false;
    }
    begin = (uint32_t)(at - name.p) + (uint32_t)(sizeof NATIVE - 1);
    digits = experts_digits(name.p + begin, name.n - begin, &out->number);
    out->prefix = (struct ds_name){name.p, begin};
    out->rest = (struct ds_name){name.p + begin + digits, name.n - begin - digits};
    return digits > 0 && out->rest.n > 0 && out->rest.p[0] == '.';
}

/* "<a fused tensor's name>.E" */
static bool experts_fused_name(const struct ds_model *m, struct ds_name name, uint32_t *expert)
{
    const char *dot = memrchr(name.p, '.', name.n);
    struct ds_name of = {name.p, dot ? (uint32_t)(dot - name.p) : 0};

    return dot && ds_autoep_find(m->fused, m->n_fused, of) &&
           experts_digits(dot + 1, name.n - of.n - 1, expert) == name.n - of.n - 1;
}

/* ---- reading ---- */

static bool experts_read_entry(struct ds_rank *mp, struct zf_torch *t, const struct ds_file *f,
                               const struct zf_pv *key, const struct zf_pv *v, struct zf_err *err)
{
    struct ds_model *all = &mp->expert;
    struct ds_entry *e = &all->entry[all->n_entries];
    struct ds_expert_name name;
    uint32_t number;

    if (!ds_name_of(mp->save->a, key, "the expert's file", &e->name, err) ||
        !zf_tensor_ref_read(&mp->save->keep, t, v, &e->view, err)) {
        return false;
    }
    number = f->expert;
    if (((ds_expert_name(e->name, &name) && (number = name.number, true)) ||
         experts_fused_name(&mp->model, e->name, &number)) &&
        number != f->expert) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "it is the file of expert %u, but holds \"%.*s\"", f->expert, (int)e->name.n,
                       e->name.p);
    }
    if (e->view.src && !ds_dir_same_rank(f->path, e->view.src->name, err)) {
        return false;
    }
    e->tensor = true;
    mp->expert_file[all->n_entries++] = f;
    return true;
}

/* Appends what a file holds. */
static bool experts_read_file(struct ds_rank *mp, const struct ds_file *f, struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&mp->save->files, f->path, err);
    const struct zf_pv *root = t ? zf_torch_root(t) : NULL;
    struct ds_model *all = &mp->expert;
    uint64_t n = zf_pv_is_map(root) ? zf_pv_len(root) : 0, cap = all->n_entries + n;
    struct ds_entry *entry = all->entry;
    const struct ds_file **where = mp->expert_file;

    if (!t) {
        return false;
    }
    if (cap > mp->save->o->lim->tensors) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "experts have more than tensors = %llu names",
                       (unsigned long long)mp->save->o->lim->tensors);
    }
    if (cap > mp->n_expert_room) {
        cap *= 2;
        all->entry = zf_arena_get(mp->save->a, cap, sizeof *all->entry, err);
        mp->expert_file = zf_arena_get(mp->save->a, cap, sizeof(*mp->expert_file), err);
        if (!all->entry || !mp->expert_file) {
            return false;
        }
        if (all->n_entries > 0) {
            memcpy(all->entry, entry, all->n_entries * sizeof *entry);
            memcpy(mp->expert_file, where, all->n_entries * sizeof *where);
        }
        mp->n_expert_room = cap;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (zf_torch_kind(t, zf_pv_val(root, i)) == ZF_TORCH_DENSE &&
            !experts_read_entry(mp, t, f, zf_pv_key(root, i), zf_pv_val(root, i), err)) {
            return !ds_err_named(err) && zf_err_in(err, "%s", zf_torch_name(t));
        }
    }
    return true;
}

static bool experts_check_doubles(const struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *all = &mp->expert;

    for (uint32_t i = 1; i < all->n_entries; i++) {
        uint32_t a = all->by_name[i - 1], b = all->by_name[i];
        struct ds_name name = all->entry[b].name;

        if (ds_name_eq(all->entry[a].name, name)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%s\" and \"%s\" both hold \"%.*s\"",
                           mp->expert_file[a]->path, mp->expert_file[b]->path, (int)name.n, name.p);
        }
    }
    return true;
}

bool ds_experts_read(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_file *f = mp->save->dir.expert, *end = f + mp->save->dir.n_experts;
    uint32_t own = mp->mp;

    mp->expert.path = mp->model.path;
    while (f < end && f->mp < own) {
        f++;
    }
    while (end > f && end[-1].mp > own) {
        end--;
    }
    if (!ds_files_expect(mp->save, f, (uint32_t)(end - f), UINT32_MAX, err)) {
        return false;
    }
    for (; f < end; f++) {
        if (!experts_read_file(mp, f, err) &&
            (!mp->save->o->degraded || err->code == ZF_E_NOMEM ||
             !zf_note_failure(mp->save->b, err, "the 16-bit weights of an expert are lost: "))) {
            return false;
        }
    }
    mp->trained = zf_arena_get(mp->save->a, mp->expert.n_entries, sizeof *mp->trained, err);
    return mp->trained && ds_model_index(mp->save, &mp->expert, err) &&
           experts_check_doubles(mp, err);
}

const struct ds_entry *ds_experts_weight(const struct ds_rank *mp, const struct ds_param *p,
                                         uint64_t l)
{
    const struct ds_entry *e;
    char name[1024];
    const uint32_t most = sizeof name - sizeof ".18446744073709551615";

    if (!p->whole) {
        e = ds_model_find(&mp->model, p->name);
        return e ? e : ds_model_find(&mp->expert, p->weight.p ? p->weight : p->name);
    }
    /* A name that was cut could be another tensor's. */
    if (p->name.n > most) {
        return NULL;
    }
    memcpy(name, p->name.p, p->name.n);
    int n = snprintf(name + p->name.n, sizeof name - p->name.n, ".%llu",
                     (unsigned long long)(p->first + l));
    return ds_model_find(&mp->expert, (struct ds_name){name, p->name.n + (uint32_t)n});
}
