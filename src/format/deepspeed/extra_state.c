/* SPDX-License-Identifier: Apache-2.0 */
/* Values in rank 0's files that are neither weights nor optimizer states: state/<key>.json for each
 * key of the model-states file, including the client state, state/optim_states.json for those of the
 * optimizer file, and extra/ for tensors of the client state. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/torch_place.h>

/* Skips weights and optimizer states, which are drafted elsewhere, but not optimizer settings that are tensors. */
static bool state_is_weights(void *ctx, const struct zf_leaf *leaf, bool *taken, struct zf_err *err)
{
    static const char *const keys[] = {"module", "frozen_param_fragments", "optimizer"};

    (void)err;
    *taken = false;
    if (zf_names_is_setting(ctx, leaf->path))
        return true;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && leaf->path.n > 0; i++) {
        *taken = *taken || (leaf->path.step[0].n == strlen(keys[i]) &&
                            memcmp(leaf->path.step[0].p, keys[i], strlen(keys[i])) == 0);
    }
    return true;
}

/* Prints a setting of a parameter group as " lr 0.01"; nothing if it is no number. */
static void state_setting(char *out, size_t room, const struct zf_pv *group, const char *key,
                          const char *label)
{
    double f = 0;
    int64_t i = 0;
    const struct zf_pv *v = zf_pv_get(group, key);
    bool is_float = zf_pv_float(v, &f);

    out[0] = '\0';
    if (is_float || (zf_pv_kind(v) == ZF_PV_INT && zf_pv_int(v, &i)))
        (void)snprintf(out, room, " %s %.9g", label, is_float ? f : (double)i);
}

#define GROUPS_SHOWN 16

/* Notes class, learning rates and weight decays of the optimizer.  The class is only recorded in
 * ds_config, if DeepSpeed created the optimizer. */
static bool state_note_optimizer(struct ds_save *ds, const struct zf_pv *root,
                                 const struct zf_pv *groups, struct zf_err *err)
{
    const struct zf_pv *type =
        zf_pv_get(zf_pv_get(zf_pv_get(root, "ds_config"), "optimizer"), "type");
    uint64_t n = zf_pv_len(groups), n_type = 0;
    const char *name = zf_pv_kind(type) == ZF_PV_STR ? zf_pv_text(type, &n_type) : "";
    char text[1200], lr[60], decay[60];
    size_t len = 0;

    for (uint64_t g = 0; g < n && g < GROUPS_SHOWN; g++) {
        const struct zf_pv *one = zf_pv_item(groups, g);

        state_setting(lr, sizeof lr, one, "lr", "lr");
        state_setting(decay, sizeof decay, one, "weight_decay", "weight decay");
        if (*lr || *decay) {
            len +=
                (size_t)snprintf(text + len, sizeof text - len, "%s group %u%s%s%s", len ? ";" : "",
                                 (unsigned)g, lr, *lr && *decay ? "," : "", decay);
        }
    }
    return len == 0 || zf_build_note_on(ds->b, ZF_NOTE_GROUPS, NULL, err, "optimizer%s%.*s:%s%s",
                                        n_type ? " " : "", (int)(n_type < 60 ? n_type : 60), name,
                                        text, n > GROUPS_SHOWN ? "; …" : "");
}

bool ds_state_model(struct ds_save *ds, struct zf_torch *t, const char *path, struct zf_err *err)
{
    zf_auto(names) struct zf_names *names = zf_names_new(err);
    const struct zf_place_file f = {
        .torch = t, .path = path, .extra = true, .take = state_is_weights, .ctx = names};

    const struct zf_pv *root = zf_torch_root(t), *optim = zf_pv_get(root, "optimizer");
    const struct zf_pv *inner = zf_pv_get(optim, "optimizer_state_dict");

    ds->shown_model = true;
    return state_note_optimizer(ds, root, zf_pv_get(inner ? inner : optim, "param_groups"), err) &&
           names && zf_place_all(ds->b, names, &f, ds->o->lim, err) &&
           zf_state_add(ds->b, &f, NULL, ds->o->lim, err);
}

/* Skips everything but the settings of the optimizer. */
static bool state_is_no_setting(void *ctx, const struct zf_leaf *leaf, bool *taken,
                                struct zf_err *err)
{
    (void)err;
    *taken = !zf_names_is_setting(ctx, leaf->path);
    return true;
}

bool ds_state_optim(struct ds_save *ds, struct zf_torch *t, const char *path, struct zf_err *err)
{
    zf_auto(names) struct zf_names *names = zf_names_new(err);
    const struct zf_place_file f = {
        .torch = t, .path = path, .extra = true, .take = state_is_no_setting, .ctx = names};

    const struct zf_pv *root = zf_torch_root(t), *in = zf_pv_get(root, "optimizer_state_dict");
    const struct zf_pv *base = zf_pv_get(in, "base_optimizer_state");

    ds->shown_optim = true;
    base = base ? base : zf_pv_get(in, "optimizer_state_dict");
    return state_note_optimizer(ds, root, zf_pv_get(base, "param_groups"), err) && names &&
           zf_place_all(ds->b, names, &f, ds->o->lim, err) &&
           zf_state_add(ds->b, &f, "optim_states", ds->o->lim, err);
}
