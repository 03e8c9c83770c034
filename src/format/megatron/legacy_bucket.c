/* SPDX-License-Identifier: Apache-2.0 */
/* Source: megatron/core/optimizer/distrib_optimizer.py (save_parameter_state, get_parameter_state_dp_zero),
 * 0.4 … 0.19: {gbuf: {(dtype, dtype): {"param", "exp_avg", "exp_avg_sq", "numel_unpadded"}}}. */
#include "legacy_bucket.h"

#include <zf/assemble/names.h>
#include <zf/assemble/torch_visit.h>

struct bucket_reading {
    struct legacy_save *ls;
    struct legacy_rank *r;
    struct zf_torch *t;
    struct zf_out name;
};

static bool bucket_leaf(void *ctx, const struct zf_leaf *leaf, struct zf_err *err)
{
    struct bucket_reading *x = ctx;
    struct legacy_flat *f;

    if (leaf->kind != ZF_TORCH_DENSE) {
        return true;
    }
    f = zf_vec_push(&x->ls->flat, err);
    if (!f || !zf_path_join(&x->name, leaf->path, err) ||
        !(f->name = zf_arena_str(x->ls->a, zf_out_text(&x->name), x->name.n, err))) {
        return false;
    }
    x->r->n_flats++;
    return zf_tensor_ref_read(&x->ls->keep, x->t, leaf->value, &f->ref, err) ||
           zf_err_in(err, "%s![\"%.100s\"]", x->r->file->distrib, f->name);
}

bool legacy_bucket_read(struct legacy_save *ls, uint32_t i, struct zf_torch *t, struct zf_err *err)
{
    struct bucket_reading x = {.ls = ls, .r = &ls->rank[i], .t = t};
    struct zf_visit visit = {.fn = bucket_leaf, .ctx = &x};
    bool ok = zf_walk(t, zf_torch_root(t), NULL, ls->o->lim, &visit, err);

    zf_auto_out(&x.name);
    return ok;
}
