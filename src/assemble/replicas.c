/* SPDX-License-Identifier: Apache-2.0 */
/* A plain tensor in the files of several ranks may be replicated (a buffer, a step, a norm under
 * tensor parallelism), or a rank's own (a random state, or a piece without a description).  Only the
 * values tell: equal copies are one tensor.  If they differ, each copy is shown separately under
 * extra/. */
#include "parts.h"

#include <zf/base/out.h>

static bool replicas_place_each(struct replicas_place *p, struct zf_path path,
                                const struct replicas *r, struct zf_err *err)
{
    zf_auto(out) struct zf_out name = {0};
    char where[ZF_COORD_MAX];
    struct zf_spot spot = {0};

    for (const struct replica *k = r->first; k; k = k->next) {
        (void)zf_coord_text(&p->mesh, k->at, where);
        if (!zf_names_extra(p->names, path, &spot, err))
            return false;
        zf_out_cut(&name, 0);
        zf_out_add(&name, spot.name, spot.name_len);
        zf_out_str(&name, ".");
        zf_out_str(&name, where);
        if (!zf_out_ok(&name, err))
            return false;
        spot.name = name.p;
        spot.name_len = name.n;
        if (!zf_tensor_ref_draft(p->b, spot, k->ref, k->file, err))
            return false;
    }
    return r->extra || zf_build_note(p->b, err,
                                     "\"%s\" differs between ranks, and how to join it is not "
                                     "recorded: each is shown separately, in extra/",
                                     spot.name);
}

bool replicas_place(struct replicas_place *p, struct zf_path path, const struct replicas *r,
                    struct zf_err *err)
{
    struct zf_spot spot;

    for (const struct replica *k = r->first->next; k; k = k->next) {
        bool same;

        if (!zf_copy_check_equal(&p->check, r->first->ref, k->ref, &same, err))
            return false;
        if (!same)
            return replicas_place_each(p, path, r, err);
    }
    if (r->extra ? !zf_names_extra(p->names, path, &spot, err)
                 : !zf_place_spot(p->b, p->names, path, &spot, err))
        return false;
    return zf_tensor_ref_draft(p->b, spot, r->first->ref, r->first->file, err) != NULL;
}
