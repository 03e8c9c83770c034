/* SPDX-License-Identifier: Apache-2.0 */
/* Universal checkpoints: zero/<parameter>/fp32.pt and one file per optimizer state, with full tensors.
 * Parameters that were not trained are read from the copied model-states files, not from the float32
 * copies that some releases make of them. Source: deepspeed/checkpoint/ds_to_universal.py, 0.11.2
 * … 0.19.8. */
#include <stdio.h>
#include <string.h>

#include "steps.h"

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>
#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/table.h>
#include <zf/model/value.h>

#define MAX_DEPTH 16 /* a parameter's name may hold '/' */

/* Properties that all parameters of one group share. */
struct universal_group {
    const char *path;             /* of the first parameter of the group, or NULL */
    const struct zf_entry *entry; /* [n] its files */
    size_t n;
};

struct universal_name {
    UT_hash_handle hh;
    const struct ds_param *param;
    struct universal_group *group;
};

struct universal {
    struct ds_rank *mp;             /* has the groups of all ranks */
    struct universal_name *by_name; /* uthash */
    struct universal_group *group;  /* [mp->n_groups] */
    const char *step_path;          /* the first parameter with a step, or NULL */
    double step;
    uint64_t left; /* number of parameters below zero/ that were not trained */
};

/* The trained parameter of that name, or NULL. */
static const struct universal_name *universal_find(const struct universal *u, struct ds_name name)
{
    return zf_table_find(u->by_name, name.p, name.n);
}

/* Indexes the trained parameters; one named by several ranks belongs to the first rank's group. */
static bool universal_index(struct universal *u, struct zf_err *err)
{
    struct ds_rank *mp = u->mp;
    struct universal_group *group = zf_arena_get(mp->save->a, mp->n_groups, sizeof *group, err);

    for (uint32_t g = 0; group && g < mp->n_groups; g++) {
        for (uint32_t i = 0; i < mp->group[g].n; i++) {
            const struct ds_param *p = &mp->group[g].param[i];
            struct universal_name *e = zf_table_make(u->by_name, p->name.p, p->name.n, err);

            if (!e)
                return false;
            if (!e->param) {
                e->param = p;
                e->group = &group[g];
            }
        }
    }
    u->group = group;
    return group != NULL;
}

/* Stage 3 stores flat tensors; their shape is in param_shapes. */
static void universal_give_shape(const struct ds_param *p, struct zf_tensor_ref *v)
{
    if (v->ndim == 1 && v->packed && v->n == p->n) {
        v->ndim = p->ndim;
        v->shape = p->shape;
    }
}

/* Without tensor parallelism, the shape must be that in param_shapes, except that a vocabulary's padding
 * may be cut off, and that experts may be joined (is_expert_param). */
static bool universal_check_shape(const struct ds_rank *mp, const struct ds_param *p,
                                  const struct zf_tensor_ref *v, bool expert, struct zf_err *err)
{
    bool same = v->ndim == p->ndim;

    for (uint32_t d = 0; same && d < p->ndim; d++)
        same = v->shape[d] == p->shape[d] || (d == 0 && v->shape[d] < p->shape[d]);
    return same || expert || mp->save->tp > 1 || v->ndim == 0 ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "it has %llu elements in %u dimensions, but by \"%s\" the parameter has %llu in "
                   "%u: it belongs to another save",
                   (unsigned long long)v->n, v->ndim, mp->model.path, (unsigned long long)p->n,
                   p->ndim);
}

/* Drafts the value of a file: a tensor, a number, or {"param": one of these, …}. */
static bool universal_draft_value(struct ds_rank *mp, struct zf_torch *t, const char *set,
                                  const struct ds_param *p, struct zf_err *err)
{
    const struct zf_pv *v = zf_torch_root(t);
    struct zf_tensor_ref view;
    bool expert = false;

    (void)zf_pv_bool(zf_pv_get(v, "is_expert_param"), &expert);
    v = zf_pv_get(v, "param") ? zf_pv_get(v, "param") : v;
    if (zf_torch_kind(t, v) == ZF_TORCH_DENSE) {
        if (!zf_tensor_ref_read(&mp->save->keep, t, v, &view, err))
            return false;
        universal_give_shape(p, &view);
        return universal_check_shape(mp, p, &view, expert, err) &&
               zf_tensor_ref_draft(mp->save->b, ds_spot(set, p->name), &view, NULL, err);
    }
    if (zf_pv_is_number(v))
        return zf_number_draft(mp->save->b, ds_spot(set, p->name), v, err);
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it holds neither a tensor nor a number");
}

static bool universal_draft_file(struct ds_rank *mp, const char *path, const char *file,
                                 const struct ds_param *p, struct zf_err *err)
{
    struct ds_name key = {file, (uint32_t)(strlen(file) - strlen(".pt"))};
    bool master = key.n == 4 && memcmp(file, "fp32", 4) == 0;
    const char *set = master ? "" : zf_path_encoded(mp->save->a, "optim", key.p, key.n, "", err);
    const char *full = set ? zf_arena_fmt(mp->save->a, err, "%s/%s", path, file) : NULL;
    zf_auto(source) struct zf_source *src = full ? zf_store_open(mp->save->st, full, err) : NULL;
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, mp->save->o->lim, err) : NULL;

    return t && (universal_draft_value(mp, t, set, p, err) ||
                 (!ds_err_named(err) && zf_err_in(err, "%s", src->name)));
}

/* By its name: opening it reports that it is a directory or a FIFO. */
static bool universal_is_state_file(const struct zf_entry *e)
{
    size_t n = strlen(e->name);

    return n > 3 && strcmp(e->name + n - 3, ".pt") == 0;
}

/* Fails if `path` lacks one of the state files e[n] of `like`. */
static bool universal_has_files(struct universal *u, const char *path, const char *like,
                                const struct zf_entry *e, size_t n, struct zf_err *err)
{
    char is[ZF_ABSENT_MAX];

    for (size_t i = 0; i < n; i++) {
        const char *file = universal_is_state_file(&e[i])
                               ? zf_arena_fmt(u->mp->save->a, err, "%s/%s", path, e[i].name)
                               : "";

        if (!file)
            return false;
        if (*file && !zf_store_find(u->mp->save->st, file) && strcmp(e[i].name, "fp32.pt") != 0) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s %s, although \"%s/%s\" exists", file,
                           zf_absent(u->mp->save->st, file, is), like, e[i].name);
        }
    }
    return true;
}

/* All parameters of a group have the same state files; so have Adam's groups.  Those of the parameter at `path` are
 * e[n]; one that the others so far lack is missing there. */
static bool universal_check_files(struct universal *u, struct universal_group *g, const char *path,
                                  const struct zf_entry *e, size_t n, struct zf_err *err)
{
    if (!universal_has_files(u, path, g->path, g->entry, g->n, err))
        return zf_forgive(u->mp->save->b, err);
    const bool more = !universal_has_files(u, g->path, path, e, n, err);
    const bool ok = !more || zf_forgive(u->mp->save->b, err);

    if (more)
        *g = (struct universal_group){.path = path, .entry = e, .n = n};
    return ok;
}

/* The step of a parameter; false, without an error: it is no number. */
static bool universal_read_step(struct zf_draft *d, double *out, struct zf_err *err)
{
    const enum zf_dtype t = zf_draft_type(d).dtype;
    uint8_t v[8];

    zf_err_clear(err);
    if (!zf_value_is_number(t) || !zf_draft_read(d, 0, 1, v, err))
        return false;
    *out = zf_value_double(t, v);
    return true;
}

/* All parameters of a group, and all groups, must have the same step: the optimizer counts each of its calls for every
 * one.  Different ones are refused even when degraded. */
static bool universal_check_step(struct universal *u, const char *path, struct ds_name name,
                                 struct zf_err *err)
{
    struct zf_draft *d = zf_build_find(u->mp->save->b, ds_spot("optim/step", name));
    uint64_t n;
    double step;

    if (!d || !zf_elems(zf_draft_type(d).ndim, zf_draft_type(d).shape, &n) || n != 1)
        return true;
    if (!universal_read_step(d, &step, err))
        return err->code == ZF_OK;
    if (!u->step_path) {
        u->step_path = path;
        u->step = step;
    }
    return step == u->step ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "%s/step.pt has step %.17g, but %s/step.pt has step %.17g: two saves are mixed",
                   path, step, u->step_path, u->step);
}

/* Drafts the files of a parameter.  Degraded: an unreadable file is treated as missing. */
static bool universal_draft_files(struct universal *u, const struct universal_name *who,
                                  const char *path, const struct zf_entry *e, size_t n,
                                  struct zf_err *err)
{
    struct universal_group *g = who->group;

    for (size_t i = 0; i < n; i++)
        if (universal_is_state_file(&e[i]) &&
            !universal_draft_file(u->mp, path, e[i].name, who->param, err) &&
            !zf_forgive(u->mp->save->b, err))
            return false;
    if (!g->path) {
        g->path = path;
        g->entry = e;
        g->n = n;
    }
    return universal_check_files(u, g, path, e, n, err) &&
           universal_check_step(u, path, who->param->name, err);
}

/* Drafts the parameter in the directory `path` ("zero/" and its name), if that has files. */
static bool universal_draft_param(struct universal *u, const char *path, struct zf_err *err)
{
    struct ds_name name = {path + strlen("zero/"), (uint32_t)strlen(path + strlen("zero/"))};
    const struct universal_name *who = universal_find(u, name);
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(u->mp->save->st, path, &e, &n, err))
        return false;
    for (size_t i = 0; !who && i < n; i++)
        u->left += universal_is_state_file(&e[i]) && strcmp(e[i].name, "fp32.pt") == 0;
    return !who || universal_draft_files(u, who, path, e, n, err);
}

/* Visits every directory below zero/, iteratively: at[d] is the index in the listing of level d. */
static bool universal_walk(struct universal *u, struct zf_err *err)
{
    struct ds_rank *mp = u->mp;
    const char *path[MAX_DEPTH] = {"zero"};
    size_t at[MAX_DEPTH] = {0}, n;
    const struct zf_entry *e;

    for (int d = 0; d >= 0;) {
        if (!zf_store_list(mp->save->st, path[d], &e, &n, err))
            return false;
        while (at[d] < n && e[at[d]].kind != ZF_ENTRY_DIR)
            at[d]++;
        if (at[d] == n || d + 1 == MAX_DEPTH) {
            d--;
            continue;
        }
        path[d + 1] = zf_arena_fmt(mp->save->a, err, "%s/%s", path[d], e[at[d]++].name);
        if (!path[d + 1] || !universal_draft_param(u, path[d + 1], err))
            return false;
        at[++d] = 0;
    }
    return true;
}

static bool universal_mark_lost(struct ds_rank *mp, struct zf_draft *d, struct ds_name name,
                                uint64_t n, struct zf_err *err)
{
    char path[1024];

    (void)snprintf(path, sizeof path, "%s/zero/%.*s/fp32.pt", zf_store_name(mp->save->st),
                   (int)name.n, name.p);
    return zf_draft_flat(
        d, 0, n,
        (struct zf_from){.lost = &(struct zf_lost){.file = path, .why = "is missing or damaged"}},
        err);
}

static bool universal_no_master(const struct ds_rank *mp, struct ds_name name, struct zf_err *err)
{
    const char *path = zf_arena_fmt(mp->save->a, err, "zero/%.*s/fp32.pt", (int)name.n, name.p);
    char is[ZF_ABSENT_MAX];

    return path &&
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s %s, although \"%s\" lists this parameter",
                   path, zf_absent(mp->save->st, path, is), mp->model.path);
}

/* Shows a parameter without a readable master as in "module", or else as missing, without a shape: with
 * tensor parallelism param_shapes only has the shape of a shard. */
static bool universal_without_master(struct ds_rank *mp, struct ds_name name, struct zf_err *err)
{
    const struct ds_entry *e = ds_model_find(&mp->model, name);
    const char *path = zf_arena_fmt(mp->save->a, err, "%s/zero/%.*s/fp32.pt",
                                    zf_store_name(mp->save->st), (int)name.n, name.p);

    if (!path)
        return false;
    if (e && e->tensor) {
        return zf_build_note(mp->save->b, err,
                             "%s is missing or damaged; its weight is taken from \"module\"",
                             path + strlen(zf_store_name(mp->save->st)) + 1);
    }
    return zf_build_missing(mp->save->b, name.p, name.n,
                            &(struct zf_lost){.file = path, .why = "is missing or damaged"}, err);
}

/* Checks that every trained parameter was found. */
static bool universal_check_all(const struct universal *u, struct zf_err *err)
{
    struct ds_rank *mp = u->mp;

    for (uint32_t g = 0; g < mp->n_groups; g++) {
        for (uint32_t i = 0; i < mp->group[g].n; i++) {
            const struct ds_param *p = &mp->group[g].param[i];
            struct ds_name name = p->name;
            struct zf_draft *d = zf_build_find(mp->save->b, ds_spot("", name));

            if (!d && mp->save->o->degraded && mp->save->tp > 1) {
                /* once, for the first rank that names it */
                if (universal_find(u, name)->param == p && !universal_without_master(mp, name, err))
                    return false;
                continue;
            }
            if (!d && mp->save->o->degraded) {
                d = zf_build_tensor(mp->save->b, ds_spot("", name),
                                    (struct zf_type){ZF_DT_F32, p->ndim, p->shape}, err);
                if (!d || !universal_mark_lost(mp, d, name, p->n, err))
                    return false;
            }
            if (!d)
                return universal_no_master(mp, name, err);
        }
    }
    return true;
}

/* True if every state file of the group is one of Adam's, or the masters. */
static bool universal_is_adams(const struct universal_group *g)
{
    static const char *const adams[] = {"exp_avg.pt", "exp_avg_sq.pt", "step.pt", "fp32.pt"};

    for (size_t i = 0; i < g->n; i++) {
        bool is = !universal_is_state_file(&g->entry[i]);

        for (size_t k = 0; k < sizeof adams / sizeof adams[0]; k++)
            is = is || strcmp(g->entry[i].name, adams[k]) == 0;
        if (!is)
            return false;
    }
    return g->path != NULL;
}

/* Compares Adam's states, which come together, between groups.  Inside a group, universal_check_files compares; this is
 * for groups of one parameter, or that lost a state of all.  A group with other states has an optimizer of its own, such
 * as Muon. */
static bool universal_check_groups(struct universal *u, struct zf_err *err)
{
    struct universal_group all = {.path = NULL};

    for (uint32_t i = 0; i < u->mp->n_groups; i++) {
        const struct universal_group *g = &u->group[i];

        if (!universal_is_adams(g))
            continue;
        if (!all.path)
            all = *g;
        else if (!universal_check_files(u, &all, g->path, g->entry, g->n, err))
            return false;
    }
    return true;
}

/* Compares the step of the optimizer with that of the model.  Stage 3: ds_universal_prove does. */
static bool universal_warn_step(const struct universal *u, struct zf_err *err)
{
    const struct ds_rank *mp = u->mp;
    char file[256];

    if (!u->step_path)
        return true;
    (void)snprintf(file, sizeof file, "%.240s/step.pt", u->step_path);
    return ds_warn_steps(mp->save, &mp->model, u->step, file, err);
}

bool ds_universal_draft(struct ds_rank *mp, struct zf_err *err)
{
    struct universal u = {.mp = mp};
    bool ok = universal_index(&u, err) && universal_walk(&u, err) && universal_check_all(&u, err) &&
              universal_check_groups(&u, err) && universal_warn_step(&u, err);

    zf_table_free(u.by_name);
    return ok && (u.left == 0 || zf_build_note_on(mp->save->b, ZF_NOTE_LEFT_OUT, "fp32.pt", err,
                                                  "%llu float32 copies of tensors that were not "
                                                  "trained are left out; the originals are shown",
                                                  (unsigned long long)u.left));
}
