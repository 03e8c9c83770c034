/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts the states of torch optimizers, under parameter names or ids. */
#include "zero0.h"

#include <zf/assemble/degraded.h>

bool ds_states_draft_value(struct ds_states *s, struct zf_spot spot, struct ds_name key,
                           const struct zf_pv *v, const struct ds_stretch *part, struct zf_err *err)
{
    struct zf_tensor_ref r;

    if (zf_pv_is_number(v))
        return zf_number_draft(s->ds->b, spot, v, err);
    if (zf_tensor_ref_odd(s->torch, v, err))
        return zf_leave_out_at(s->ds->b, s->path, spot, err);
    if (zf_torch_kind(s->torch, v) != ZF_TORCH_DENSE)
        return true;
    if (!zf_tensor_ref_read(&s->ds->keep, s->torch, v, &r, err) ||
        (r.src && !ds_dir_same_rank(s->path, r.src->name, err)))
        return false;
    if (part && part->whole > 0 && r.ndim == 1 && r.packed && r.n == part->whole) {
        r.off += part->at * zf_dtype_info(r.dtype)->bytes;
        r.n = part->like->n;
        r.ndim = part->like->ndim;
        r.shape = part->like->shape;
    }
    if (part && r.ndim > 0 && r.n != part->like->n) {
        return zf_build_note_on(s->ds->b, ZF_NOTE_LEFT_OUT, s->path, err,
                                "the optimizer state \"%.*s\" of \"%.*s\" is left out: it has "
                                "another length than the weight",
                                (int)(key.n < 80 ? key.n : 80), key.p,
                                (int)(spot.name_len < 100 ? spot.name_len : 100), spot.name);
    }
    const struct ds_overlap_bytes at = {
        .src = r.src, .off = r.off, .what = key, .of = {spot.name, (uint32_t)spot.name_len}};
    return (r.ndim == 0 || !r.packed || ds_overlap_add(&s->overlap, &at, r.dtype, r.n, err)) &&
           zf_tensor_ref_draft(s->ds->b, spot, &r, NULL, err);
}

bool ds_states_draft(struct ds_states *s, struct ds_name name, const struct zf_pv *map,
                     const struct ds_stretch *part, struct zf_err *err)
{
    for (uint64_t i = 0; zf_pv_is_map(map) && i < zf_pv_len(map); i++) {
        const char *set;
        struct ds_name key;

        if (zf_pv_kind(zf_pv_key(map, i)) != ZF_PV_STR)
            continue;
        if (!ds_name_of(s->ds->a, zf_pv_key(map, i), "the optimizer's state", &key, err) ||
            !(set = zf_path_encoded(s->ds->a, "optim", key.p, key.n, "", err)) ||
            !ds_states_draft_value(s, ds_spot(set, name), key, zf_pv_val(map, i), part, err))
            return false;
    }
    return true;
}
