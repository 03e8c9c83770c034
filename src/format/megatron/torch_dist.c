/* SPDX-License-Identifier: Apache-2.0 */
/* Backend torch_dist: .metadata describes the tensors; the common state is next to it, or an object in it. */
#include "steps.h"

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>
#include <zf/dcp.h>

/* Key of the common state in core 0.19. */
#define COMMON_KEY "common_state/shard_0_1"

static bool dist_common(struct mg_save *s, uint32_t part, struct zf_err *err)
{
    struct mg_object *o = mg_save_find_object(s, COMMON_KEY, part);
    char path[MG_PATH];

    if (o) {
        o->in_state = true;
        return mg_save_common(s, part, o->src, mg_save_path(s, part, ".metadata!" COMMON_KEY, path),
                              err) ||
               zf_forgive(s->b, err);
    }
    return mg_save_common_file(s, part, err);
}

bool mg_torch_dist_try(struct mg_save *s, uint32_t i, struct zf_err *err)
{
    struct zf_dcp *d = zf_build_degraded(s->b) ? zf_dcp_new(s->lim, err) : NULL;

    if (!d)
        return !zf_build_degraded(s->b);
    bool ok = zf_build_mark(s->b, err);

    if (ok) {
        zf_dcp_begin(d, (struct zf_dcp_group){0});
        ok = zf_dcp_read(d, s->st, s->dir[i], ".metadata", s->lim, s->b, err);
        zf_build_undo(s->b);
    }
    zf_dcp_free(d);
    return ok;
}

bool mg_torch_dist(struct mg_save *s, struct zf_err *err)
{
    char is[ZF_ABSENT_MAX], path[MG_PATH];
    bool ok = true;

    for (uint32_t i = 0; i < s->n_dirs; i++) {
        if (!zf_store_has(s->st, mg_save_path(s, i, ".metadata", path), ZF_ENTRY_FILE)) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "metadata.json gives the format torch_dist, but .metadata, which lists the "
                    "tensors, %s",
                    zf_absent(s->st, path, is));
            return *s->dir[i] ? zf_err_in(err, "%s", s->dir[i]) : false;
        }
    }
    ok = mg_dcp_lists(s, mg_key_parse, err);
    for (uint32_t i = 0; ok && i < s->n_dirs; i++)
        ok = dist_common(s, i, err);
    return ok;
}
