/* SPDX-License-Identifier: Apache-2.0 */
#include "torch_dist.h"

#include <zf/assemble/files.h>

#include "dcp_lists.h"

/* What is left of the state dict without its shards.  Source: megatron/core/dist_checkpointing/
 * strategies/common.py (COMMON_STATE_FNAME, 0.4 … 0.18); in 0.19 an object of .metadata. */
#define COMMON_FILE "common.pt"
#define COMMON_KEY "common_state/shard_0_1"

static bool dist_common(struct mg_save *s, struct zf_err *err)
{
    struct mg_object *o = mg_save_find_object(s, COMMON_KEY);
    zf_auto(source) struct zf_source *src = NULL;

    if (o) {
        o->told = true;
        return mg_save_common(s, o->src, ".metadata!" COMMON_KEY, "common", err);
    }
    if (!zf_store_has(s->st, COMMON_FILE, ZF_ENTRY_FILE)) {
        return true;
    }
    src = zf_store_open(s->st, COMMON_FILE, err);
    return src && mg_save_common(s, src, COMMON_FILE, "common", err);
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
