/* SPDX-License-Identifier: Apache-2.0 */
/* Universal checkpoints: zero/<parameter>/fp32.pt and one file a state of the optimizer, joined
 * already.  What was not trained stays in the copied model-states files; the float32 copies that
 * some releases make of it are left alone. Source: deepspeed/checkpoint/ds_to_universal.py, 0.11.2
 * … 0.19.8. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/files.h>

#include "universal.h"

#define MAX_DEPTH 16 /* a parameter's name may hold '/' */

/* The trained parameter of that name, or NULL. */
static const struct ds_param *universal_find_param(const struct ds_rank *mp, struct ds_name name)
{
    for (uint32_t g = 0; g < mp->n_groups; g++) {
        for (uint32_t i = 0; i < mp->group[g].n; i++) {
            if (ds_name_eq(mp->group[g].param[i].name, name)) {
                return &mp->group[g].param[i];
            }
        }
    }
    return NULL;
}

static bool universal_draft_tensor(struct ds_rank *mp, const char *set, const struct ds_param *p,
                                   struct zf_tensor_ref *v, struct zf_err *err)
{
    /* stage 3 stores the bare vector, whose shape only param_shapes knows */
    if (v->ndim == 1 && v->packed && v->n == p->n) {
        v->ndim = p->ndim;
        v->shape = p->shape;
    }
    return zf_tensor_ref_draft(mp->save->b, ds_spot(set, p->name), v, NULL, err) != NULL;
}

/* A file holds a tensor, a number, or {"param": one of both, …}. */
static bool universal_draft_value(struct ds_rank *mp, struct zf_torch *t, const char *set,
                                  const struct ds_param *p, struct zf_err *err)
{
    const struct zf_pv *v = zf_torch_root(t);
    struct zf_tensor_ref view;
    int64_t i;
    double f;

    v = zf_pv_get(v, "param") ? zf_pv_get(v, "param") : v;
    if (zf_torch_kind(t, v) == ZF_TORCH_DENSE) {
        return zf_tensor_ref_read(&mp->save->keep, t, v, &view, err) &&
               universal_draft_tensor(mp, set, p, &view, err);
    }
    if (zf_pv_kind(v) == ZF_PV_INT && zf_pv_int(v, &i)) {
        return zf_build_scalar(mp->save->b, ds_spot(set, p->name), ZF_DT_I64, &i, err);
    }
    if (zf_pv_float(v, &f)) {
        return zf_build_scalar(mp->save->b, ds_spot(set, p->name), ZF_DT_F64, &f, err);
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it holds neither a tensor nor a number");
}

static bool universal_draft_file(struct ds_rank *mp, const char *path, const char *file,
                                 const struct ds_param *p, struct zf_err *err)
{
    struct ds_name key = {file, (uint32_t)(strlen(file) - strlen(".pt"))};
    bool master = key.n == 4 && memcmp(file, "fp32", 4) == 0;
    const char *set = master ? "" : ds_optim_set(mp->save->a, key, err);
    const char *full = set ? zf_arena_fmt(mp->save->a, err, "%s/%s", path, file) : NULL;
    zf_auto(source) struct zf_source *src = full ? zf_store_open(mp->save->st, full, err) : NULL;
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, mp->save->o->lim, err) : NULL;

    return t && (universal_draft_value(mp, t, set, p, err) ||
                 (!ds_err_named(err) && zf_err_in(err, "%s", src->name)));
}

static bool universal_is_state_file(const struct zf_entry *e)
{
    size_t n = strlen(e->name);

    return e->kind != ZF_ENTRY_DIR && n > 3 && strcmp(e->name + n - 3, ".pt") == 0;
}

/* The parameter whose files are in `path` ("zero/" and its name), if it has any. */
static bool universal_draft_param(struct ds_rank *mp, const char *path, uint64_t *left,
                                  struct zf_err *err)
{
    struct ds_name name = {path + strlen("zero/"), (uint32_t)strlen(path + strlen("zero/"))};
    const struct ds_param *p = universal_find_param(mp, name);
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(mp->save->st, path, &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (universal_is_state_file(&e[i]) && !p) {
            *left += strcmp(e[i].name, "fp32.pt") == 0;
        } else if (universal_is_state_file(&e[i]) &&
                   !universal_draft_file(mp, path, e[i].name, p, err)) {
            return false;
        }
    }
    return true;
}

/* Every directory below zero/, without recursion: at[d] is the place in the listing of level d. */
static bool universal_walk(struct ds_rank *mp, uint64_t *left, struct zf_err *err)
{
    const char *path[MAX_DEPTH] = {"zero"};
    size_t at[MAX_DEPTH] = {0}, n;
    const struct zf_entry *e;

    for (int d = 0; d >= 0;) {
        if (!zf_store_list(mp->save->st, path[d], &e, &n, err)) {
            return false;
        }
        while (at[d] < n && e[at[d]].kind != ZF_ENTRY_DIR) {
            at[d]++;
        }
        if (at[d] == n || d + 1 == MAX_DEPTH) {
            d--;
            continue;
        }
        path[d + 1] = zf_arena_fmt(mp->save->a, err, "%s/%s", path[d], e[at[d]++].name);
        if (!path[d + 1] || !universal_draft_param(mp, path[d + 1], left, err)) {
            return false;
        }
        at[++d] = 0;
    }
    return true;
}

static bool universal_lose(struct ds_rank *mp, struct zf_draft *d, struct ds_name name, uint64_t n,
                           struct zf_err *err)
{
    char path[1024];

    (void)snprintf(path, sizeof path, "%s/zero/%.*s/fp32.pt", zf_store_name(mp->save->st),
                   (int)name.n, name.p);
    return zf_draft_lost_flat(d, 0, n, &(struct zf_lost){.file = path, .why = "is missing"}, err);
}

static bool universal_no_master(const struct ds_rank *mp, struct ds_name name, struct zf_err *err)
{
    const char *path = zf_arena_fmt(mp->save->a, err, "zero/%.*s/fp32.pt", (int)name.n, name.p);
    char is[ZF_ABSENT_MAX];

    return path && zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s %s: \"%s\" names that parameter",
                           path, zf_absent(mp->save->st, path, is), mp->model.path);
}

/* Every trained parameter must have been there. */
static bool universal_check_all(struct ds_rank *mp, struct zf_err *err)
{
    for (uint32_t g = 0; g < mp->n_groups; g++) {
        for (uint32_t i = 0; i < mp->group[g].n; i++) {
            const struct ds_param *p = &mp->group[g].param[i];
            struct ds_name name = p->name;
            struct zf_draft *d = zf_build_find(mp->save->b, ds_spot("", name));

            if (!d && mp->save->o->degraded && mp->save->tp > 1) {
                /* param_shapes has the shape of a shard */
                if (!zf_build_missing(mp->save->b, name.p, name.n,
                                      &(struct zf_lost){.file = "zero/", .why = "is missing"},
                                      err)) {
                    return false;
                }
                continue;
            }
            if (!d && mp->save->o->degraded) {
                d = zf_build_tensor(mp->save->b, ds_spot("", name),
                                    (struct zf_type){ZF_DT_F32, p->ndim, p->shape}, err);
                if (!d || !universal_lose(mp, d, name, p->n, err)) {
                    return false;
                }
            }
            if (!d) {
                return universal_no_master(mp, name, err);
            }
        }
    }
    return true;
}

bool ds_universal_draft(struct ds_rank *mp, struct zf_err *err)
{
    uint64_t left = 0;

    if (!universal_walk(mp, &left, err) || !universal_check_all(mp, err)) {
        return false;
    }
    return left == 0 ||
           zf_build_note(
               mp->save->b, err,
               "%llu float32 copies of what was not trained are left out: the originals are "
               "served",
               (unsigned long long)left);
}
