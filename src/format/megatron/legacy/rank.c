/* SPDX-License-Identifier: Apache-2.0 */
/* Reads model_optim_rng.pt.  Source: megatron/training/checkpointing.py (generate_state_dict), 0.4 … 0.19;
 * `model` is a flat dict with core models, nested dicts before. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/names.h>
#include <zf/assemble/torch_place.h>

#include "save.h"

/* ---- the model ---- */

struct rank_reading {
    struct legacy_save *ls;
    struct legacy_rank *r;
    struct zf_torch *t;
    const char *key; /* "model", "model0" */
    uint32_t chunk;
    struct zf_out name;
};

static bool rank_add_part(struct rank_reading *x, const struct zf_leaf *leaf, struct zf_err *err)
{
    struct legacy_save *ls = x->ls;
    struct legacy_part *p = zf_vec_push(&ls->part, err);

    if (!p || !(p->name = zf_arena_str(ls->a, zf_out_text(&x->name), x->name.n, err)))
        return false;
    if (!zf_tensor_ref_read(&ls->keep, x->t, leaf->value, &p->weight.ref, err))
        return zf_err_in(err, "!%s[\"%.100s\"]", x->key, p->name);
    p->weight.key = LEGACY_WEIGHT;
    p->name_n = x->name.n;
    p->file = (uint32_t)(x->r - ls->rank);
    p->chunk = x->chunk;
    x->r->n_parts++;
    return true;
}

static bool rank_leaf(void *ctx, const struct zf_leaf *leaf, struct zf_err *err)
{
    struct rank_reading *x = ctx;

    if (!zf_path_join(&x->name, leaf->path, err))
        return false;
    if (leaf->kind == ZF_TORCH_NOT || zf_names_extra_state(zf_out_text(&x->name), x->name.n))
        return true;
    if (leaf->kind != ZF_TORCH_DENSE) {
        zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "it is not a dense tensor");
        x->r->odd = zf_arena_str(x->ls->a, zf_out_text(&x->name), x->name.n, err);
        return x->r->odd && zf_leave_out(x->ls->b, x->r->file->path, zf_out_text(&x->name), err);
    }
    return rank_add_part(x, leaf, err);
}

static bool rank_read_model(struct rank_reading *x, const struct zf_pv *v, struct zf_err *err)
{
    struct zf_visit visit = {.fn = rank_leaf, .ctx = x};

    if (!zf_pv_is_map(v))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%s\" does not map names to tensors",
                       x->key);
    return zf_torch_visit(x->t, v, NULL, x->ls->o->lim, &visit, err);
}

/* Is a top-level key that of the model, or of a chunk of a virtual pipeline ("model0", "model10")?  Others,
 * such as "modelopt_state", are shown like other values. */
static bool rank_is_model(const char *key, size_t n)
{
    if (n < 5 || memcmp(key, "model", 5) != 0)
        return false;
    for (size_t i = 5; i < n; i++)
        if (key[i] < '0' || key[i] > '9')
            return false;
    return n <= 6 || key[5] != '0';
}

/* Checks that the chunks are either numbered 0 … n-1, or a single one without a number. */
static bool rank_models_in_order(const struct rank_reading *x, const struct zf_pv *root,
                                 struct zf_err *err)
{
    for (uint64_t i = 0; i < zf_pv_len(root); i++) {
        uint64_t n = 0;
        const struct zf_pv *key = zf_pv_key(root, i);
        const char *text = zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &n) : NULL;

        if (!text || n == 5 || !rank_is_model(text, n))
            continue;
        if (!x->r->numbered || strtoull(text + 5, NULL, 10) >= x->r->n_chunks) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "it has \"%.20s\", %s: chunks of a virtual pipeline are missing, or two "
                           "models are mixed",
                           text, x->r->numbered ? "but not all before it" : "and also \"model\"");
        }
    }
    return true;
}

static bool rank_read_models(struct rank_reading *x, struct zf_err *err)
{
    const struct zf_pv *root = zf_torch_root(x->t), *v = zf_pv_get(root, "model");
    char key[32];

    x->r->first_part = (uint32_t)x->ls->part.n;
    x->key = "model";
    if (v) {
        x->r->n_chunks = 1;
        return rank_models_in_order(x, root, err) && rank_read_model(x, v, err);
    }
    x->r->numbered = true;
    for (x->key = key;; x->chunk++) {
        (void)snprintf(key, sizeof key, "model%u", x->chunk);
        v = zf_pv_get(root, key);
        if (!v)
            break;
        if (!rank_read_model(x, v, err))
            return false;
    }
    x->r->n_chunks = x->chunk;
    if (x->chunk == 0)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it has neither \"model\" nor \"model0\"");
    return rank_models_in_order(x, root, err);
}

/* ---- values that all ranks repeat ---- */

/* Is it a setting of one process: its rank, machine, directories and logs? */
static bool rank_own_setting(const char *key, const char *name)
{
    static const char *const words[] = {"path",   "dir",  "save",   "load",        "host",
                                        "addr",   "port", "wandb",  "tensorboard", "log",
                                        "device", "node", "timing", "profile",     NULL};
    size_t n = strlen(name);

    (void)key;
    if (n >= 4 && strcmp(name + n - 4, "rank") == 0 && !strstr(name, "lora"))
        return true;
    for (size_t i = 0; words[i]; i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

static bool rank_agree(struct legacy_save *ls, struct legacy_rank *r, struct zf_torch *t,
                       struct zf_err *err)
{
    static const char *const keys[] = {"iteration", "checkpoint_version", "opt_param_scheduler",
                                       "lr_scheduler"};
    const struct zf_pv *root = zf_torch_root(t), *args = zf_pv_get(root, "args");
    zf_auto(agree) struct zf_agree *said =
        zf_agree_new(r->file->path, ls->o->lim->model_memory, err);

    args = zf_pv_is_map(args) ? args : zf_pv_state(args);
    if (!zf_pv_u64(zf_pv_get(args, "rank"), &r->writer))
        r->writer = LEGACY_NO_WRITER;
    for (size_t i = 0; said && i < sizeof keys / sizeof keys[0]; i++) {
        const struct zf_pv *v = zf_pv_get(root, keys[i]);

        if (v && !zf_agree_add(said, t, keys[i], v, NULL, true, err))
            return false;
    }
    if (!said || (args && !zf_agree_add(said, t, "args", args, rank_own_setting, false, err)))
        return false;
    if (ls->said)
        return zf_agree_compare(said, ls->said, false, err);
    (void)zf_pv_float(zf_pv_get(root, "checkpoint_version"), &ls->version);
    ls->said = zf_give(said);
    return megatron_settings_args(args, &ls->settings, err);
}

/* ---- the rest ---- */

/* *taken: is the leaf part of the model or the optimizer, which are added elsewhere?  Not the values of modules'
 * get_extra_state, and settings that are tensors. */
static bool rank_is_taken(void *ctx, const struct zf_leaf *leaf, bool *taken, struct zf_err *err)
{
    const struct zf_step *step = leaf->path.n > 1 ? &leaf->path.step[1] : NULL;
    const struct zf_step *last = step ? &leaf->path.step[leaf->path.n - 1] : NULL;

    (void)err;
    *taken = step && (rank_is_model(step->p, step->n)
                          ? !zf_names_extra_state(last->p, last->n)
                          : step->n == 9 && memcmp(step->p, "optimizer", 9) == 0 &&
                                !zf_names_is_setting(ctx, leaf->path));
    return true;
}

/* Is the value to be shown under state/?  The model and its modules' states are shown already. */
static bool rank_is_state(void *ctx, const char *key, size_t n)
{
    (void)ctx;
    return !rank_is_model(key, n);
}

/* Shows random states, which differ between ranks, under extra/ and the rank's folder. */
static bool rank_draft_extra(struct legacy_save *ls, const struct legacy_rank *r,
                             struct zf_torch *t, struct zf_err *err)
{
    zf_auto(names) struct zf_names *names = zf_names_new(err);
    struct zf_place_file f = {.torch = t,
                              .path = r->file->path,
                              .head = r->file->dir,
                              .extra = true,
                              .bytes = true,
                              .take = rank_is_taken,
                              .is_state = rank_is_state,
                              .ctx = names};

    if (!names || !zf_place_all(ls->b, names, &f, ls->o->lim, err))
        return false;
    f.head = NULL;
    return ls->said || zf_state_add(ls->b, &f, NULL, ls->o->lim, err);
}

bool legacy_rank_read(struct legacy_save *ls, uint32_t i, struct zf_torch *t, struct zf_err *err)
{
    struct rank_reading x = {.ls = ls, .r = &ls->rank[i], .t = t};
    const struct zf_pv *root = zf_torch_root(t);
    int64_t step;

    if (!ls->said && zf_pv_int(zf_pv_get(root, "iteration"), &step))
        zf_build_step(ls->b, step);
    bool ok = zf_pv_is_map(root) || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it is not a dict");
    ok = ok && rank_draft_extra(ls, x.r, t, err) && rank_agree(ls, x.r, t, err) &&
         rank_read_models(&x, err) && legacy_optim_read(ls, x.r, t, err);
    zf_auto_out(&x.name);
    if (!ok && (!err->path[0] || err->path[0] == '!'))
        (void)zf_err_in(err, "%s", x.r->file->path);
    return ok;
}
