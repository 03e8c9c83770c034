/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's files hold more than the weights, which becomes state/<key>.json for the keys of the
 * model-states file, the client state among them, state/optim_states.json for the optimizer's,
 * and extra/ for tensors of the client state. */
#include "extra_state.h"

#include <string.h>

#include <zf/assemble/names.h>
#include <zf/assemble/torch_json.h>
#include <zf/assemble/torch_place.h>

/* These hold weights and are drafted elsewhere. */
static bool state_is_weights(void *ctx, const struct zf_leaf *leaf, bool *taken, struct zf_err *err)
{
    static const char *const keys[] = {"module", "frozen_param_fragments", "optimizer"};

    (void)ctx;
    (void)err;
    *taken = false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && leaf->path.n > 0; i++) {
        *taken = *taken || (leaf->path.step[0].n == strlen(keys[i]) &&
                            memcmp(leaf->path.step[0].p, keys[i], strlen(keys[i])) == 0);
    }
    return true;
}

bool ds_state_model(struct ds_save *ds, struct zf_torch *t, const char *path, struct zf_err *err)
{
    const struct zf_place_file f = {
        .torch = t, .path = path, .extra = true, .take = state_is_weights};
    zf_auto(names) struct zf_names *names = zf_names_new(NULL, err);

    ds->told_model = true;
    return names && zf_place_all(ds->b, names, &f, ds->o->lim, err) &&
           zf_state_add(ds->b, &f, NULL, ds->o->lim, err);
}

bool ds_state_optim(struct ds_save *ds, struct zf_torch *t, const char *path, struct zf_err *err)
{
    const struct zf_place_file f = {.torch = t, .path = path, .extra = true};

    ds->told_optim = true;
    return zf_state_add(ds->b, &f, "optim_states", ds->o->lim, err);
}
