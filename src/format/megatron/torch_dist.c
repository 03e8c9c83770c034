/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest says torch_dist: .metadata describes the tensors, and the common state lies beside it or in it. */
#include "steps.h"

#include <zf/assemble/files.h>

#include "dcp_lists.h"

/* Where core 0.19 has the common state. */
#define COMMON_KEY "common_state/shard_0_1"

static bool dist_common(struct mg_save *s, struct zf_err *err)
{
    struct mg_object *o = mg_save_find_object(s, COMMON_KEY);

    if (o) {
        o->told = true;
        return mg_save_common(s, o->src, ".metadata!" COMMON_KEY, err);
    }
    return mg_save_common_file(s, err);
}

bool mg_torch_dist(struct mg_save *s, struct zf_err *err)
{
    char is[ZF_ABSENT_MAX];

    if (!zf_store_has(s->st, ".metadata", ZF_ENTRY_FILE)) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "metadata.json says torch_dist, but .metadata, which says where the tensors are, "
            "%s",
            zf_absent(s->st, ".metadata", is));
    }
    return mg_dcp_lists(s, mg_key_parse, err) && dist_common(s, err);
}
