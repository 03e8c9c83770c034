/* SPDX-License-Identifier: Apache-2.0 */
/* States of an optimizer without ZeRO whose parameter names are unknown, shown by torch's parameter ids:
 * optim/<state>/<id>, and masters, if any, in optim/param/.  An id is a different parameter on each
 * model-parallel rank, so these are never joined but shown below mp_rank_NN/.  With experts, every
 * expert-parallel rank has its own optimizer file, which also holds the other parameters; ids are then
 * "expp_rank_R.<id>".
 * Source: deepspeed/runtime/engine.py (_save_moe_checkpoint, _get_optimizer_ckpt_name), 0.14.5 and 0.19.8. */
#include "zero0.h"

#include <string.h>

#include <zf/assemble/degraded.h>

#define NUMBERED_IDS (1u << 20) /* most parameters of an optimizer */

/* An optimizer that is being drafted. */
struct numbered {
    struct ds_states states;
    const struct ds_file *file; /* of an expert-parallel rank, or NULL */
    uint64_t n_odd;             /* entries of its state without an id or without states */
};

static struct ds_name numbered_name(const struct numbered *w, uint64_t id, struct zf_err *err)
{
    const char *p = w->file ? zf_arena_fmt(w->states.ds->a, err, "expp_rank_%u.%llu", w->file->dp,
                                           (unsigned long long)id)
                            : zf_arena_fmt(w->states.ds->a, err, "%llu", (unsigned long long)id);

    return (struct ds_name){p, p ? (uint32_t)strlen(p) : 0};
}

static bool numbered_draft_master(struct numbered *w, uint64_t id, const struct zf_pv *v,
                                  struct zf_err *err)
{
    struct ds_name name = numbered_name(w, id, err);

    return name.p && ds_states_draft_value(&w->states, ds_spot("optim/param", name),
                                           (struct ds_name){"the master", 10}, v, NULL, err);
}

/* Drafts fp32_groups_flat, one flat buffer per group, under the group's index; else fp32_groups, the
 * masters of each group in the order of its ids. */
static bool numbered_draft_masters(struct numbered *w, const struct zf_pv *optim,
                                   const struct zf_pv *groups, struct zf_err *err)
{
    const struct zf_pv *flat = zf_pv_get(optim, "fp32_groups_flat");
    const struct zf_pv *lists = zf_pv_get(optim, "fp32_groups");
    uint64_t next = 0;

    for (uint64_t g = 0; g < zf_pv_len(flat); g++)
        if (!numbered_draft_master(w, g, zf_pv_item(flat, g), err))
            return false;
    for (uint64_t g = 0; zf_pv_len(flat) == 0 && g < zf_pv_len(lists); g++) {
        const struct zf_pv *ids = zf_pv_get(zf_pv_item(groups, g), "params");

        for (uint64_t k = 0; k < zf_pv_len(zf_pv_item(lists, g)); k++, next++) {
            uint64_t id;

            if (!numbered_draft_master(w, zf_pv_u64(zf_pv_item(ids, k), &id) ? id : next,
                                       zf_pv_item(zf_pv_item(lists, g), k), err))
                return false;
        }
    }
    return true;
}

static bool numbered_draft(struct numbered *w, const struct zf_pv *optim, struct zf_err *err)
{
    const struct zf_pv *inner = zf_pv_get(optim, "optimizer_state_dict");
    const struct zf_pv *torch = inner ? inner : optim, *state = zf_pv_get(torch, "state");
    uint64_t id;

    if (zf_pv_is_map(state) && zf_pv_len(state) > NUMBERED_IDS) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the optimizer has states of %llu parameters",
                       (unsigned long long)zf_pv_len(state));
    }
    for (uint64_t i = 0; zf_pv_is_map(state) && i < zf_pv_len(state); i++) {
        const struct zf_pv *states = zf_pv_val(state, i);

        if (!zf_pv_u64(zf_pv_key(state, i), &id) || !zf_pv_is_map(states)) {
            w->n_odd++;
            continue;
        }
        struct ds_name name = numbered_name(w, id, err);
        if (!name.p || !ds_states_draft(&w->states, name, states, NULL, err))
            return false;
    }
    return numbered_draft_masters(w, optim, zf_pv_get(torch, "param_groups"), err) &&
           ds_overlap_check(&w->states.overlap, err) &&
           (w->n_odd == 0 ||
            zf_build_note_on(w->states.ds->b, ZF_NOTE_LEFT_OUT, w->states.path, err,
                             "\"%s\": %llu entries of the optimizer state are left out, because "
                             "they have no parameter number or hold no state",
                             w->states.path, (unsigned long long)w->n_odd));
}

/* The largest expert-parallel size in the names of the optimizer's groups ("ep_size_4"); 0: there is none.
 * Source: deepspeed/moe/layer.py (expert_group_name), moe/utils.py (split_params_into_different_moe_groups_for_optimizer),
 * 0.6 … 0.19.8. */
static uint32_t numbered_expert_ranks(const struct zf_pv *optim)
{
    static const char word[] = "ep_size_";
    const struct zf_pv *inner = zf_pv_get(optim, "optimizer_state_dict");
    const struct zf_pv *groups = zf_pv_get(inner ? inner : optim, "param_groups");
    uint32_t most = 0;

    for (uint64_t i = 0; zf_pv_is_seq(groups) && i < zf_pv_len(groups); i++) {
        uint64_t len = 0;
        const char *name = zf_pv_text(zf_pv_get(zf_pv_item(groups, i), "name"), &len);
        uint32_t n = 0, k = sizeof word - 1;

        if (!name || len <= k || len > k + 6 || memcmp(name, word, k) != 0)
            continue;
        while (k < len && name[k] >= '0' && name[k] <= '9')
            n = 10 * n + (uint32_t)(name[k++] - '0');
        most = k == len && n > most ? n : most;
    }
    return most;
}

/* Drafts the optimizer in the file at `path`.  *some is set if there is one; *n_ep is raised to the
 * expert-parallel size that its groups record. */
static bool numbered_read(struct ds_save *ds, const char *path, const struct ds_file *file,
                          bool *some, uint32_t *n_ep, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(ds->st, path, err);
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, ds->o->lim, err) : NULL;
    const struct zf_pv *optim = t ? zf_pv_get(zf_torch_root(t), "optimizer") : NULL;

    struct numbered w = {.states = {.ds = ds, .torch = t, .path = path}, .file = file};
    const uint32_t said = numbered_expert_ranks(optim);
    *some = *some || zf_pv_is_map(optim);
    *n_ep = said > *n_ep ? said : *n_ep;
    bool ok = t && (!zf_pv_is_map(optim) || numbered_draft(&w, optim, err));
    zf_auto_states(&w.states);
    return ok || (!ds_err_named(err) && zf_err_in(err, "%s", path));
}

/* Reads the optimizer files of the expert-parallel ranks of mp; none may be missing. */
static bool numbered_read_experts(struct ds_rank *mp, bool *some, struct zf_err *err)
{
    const struct ds_dir *d = &mp->save->dir;
    uint32_t next = 0, n = 0;

    for (uint32_t i = 0; i < d->n_expp; i++)
        n = d->expp[i].dp >= n ? d->expp[i].dp + 1 : n;
    for (uint32_t i = 0; i <= d->n_expp; i++) {
        const struct ds_file *f = i < d->n_expp ? &d->expp[i] : NULL;

        if (f && f->mp != mp->mp)
            continue;
        if (f ? f->dp != next : next < n) {
            struct ds_file missing = d->expp[0];
            char name[DS_FILE_NAME];

            missing.dp = next;
            missing.mp = mp->mp;
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "%s is missing (there are %u expert-parallel ranks)",
                    ds_file_name(missing, name), n);
            if (!zf_forgive(mp->save->b, err))
                return false;
        }
        if (f && !numbered_read(mp->save, f->path, f, some, &n, err) &&
            !zf_forgive(mp->save->b, err))
            return false;
        next = f ? f->dp + 1 : next;
    }
    return true;
}

static bool numbered_draft_rank(struct ds_rank *mp, struct zf_err *err)
{
    struct zf_build *b = mp->save->b;
    bool some = false;
    uint32_t n_ep = 0; /* the model's file has no say */

    if (!zf_build_prefix(b, mp->tree, err) ||
        !numbered_read(mp->save, mp->model.path, NULL, &some, &n_ep, err) ||
        (mp->model.moe && !numbered_read_experts(mp, &some, err)) || !zf_build_prefix(b, "", err))
        return false;
    if (!some) {
        return zf_build_note(b, err,
                             "\"%s\": no file holds fp32 masters or optimizer states (without ZeRO "
                             "they are in expp_rank_*_optim_states.pt)",
                             mp->model.path);
    }
    return zf_build_note(
        b, err,
        "the save does not record the parameter names of the fp32 masters and optimizer "
        "states%s%s: %s%soptim/ shows them under the optimizer's numbers",
        *mp->tree ? " of " : "", mp->tree, mp->tree, *mp->tree ? "/" : "");
}

bool ds_numbered_draft(struct ds_ranks *all, struct zf_err *err)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (all->rank[i].numbered && !numbered_draft_rank(&all->rank[i], err))
            return false;
    return true;
}
