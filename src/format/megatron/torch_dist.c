/* SPDX-License-Identifier: Apache-2.0 */
#include "torch_dist.h"

#include <string.h>

#include <zf/assemble/files.h>
#include <zf/dcp.h>

/* What is left of the state dict without its shards.  Source: megatron/core/dist_checkpointing/
 * strategies/common.py (COMMON_STATE_FNAME, 0.4 … 0.18); in 0.19 an object of .metadata. */
#define COMMON_FILE "common.pt"
#define COMMON_KEY "common_state/shard_0_1"

static void dist_free(void *backend)
{
    zf_dcp_free(backend);
}

static bool dist_add(struct mg_save *s, struct zf_dcp *d, uint64_t i, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = NULL;
    struct zf_dcp_key k;
    struct mg_tensor *t;

    if (!zf_dcp_key(d, i, &k, err)) {
        return false;
    }
    if (k.is_bytes) {
        src = zf_dcp_item(d, i, err);
        return src && mg_save_object(s, k.name, k.name_len, src, err);
    }
    if (!k.draft) {
        return true; /* the driver has put it in its place */
    }
    t = mg_save_draft(s, k.name, k.name_len, k.draft, k.cuts, err);
    if (t) {
        t->order = i;
    }
    return t != NULL;
}

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
    struct zf_dcp *d;
    char is[ZF_ABSENT_MAX];

    if (!zf_store_has(s->st, ".metadata", ZF_ENTRY_FILE)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "metadata.json says torch_dist, but .metadata, which says where the tensors are, "
                       "%s",
                       zf_absent(s->st, ".metadata", is));
    }
    d = zf_dcp_new(s->lim, err);
    if (!d) {
        return false;
    }
    s->backend = d;
    s->backend_free = dist_free;
    if (!zf_dcp_read(d, s->st, "", ".metadata", s->lim, s->b, err) ||
        !zf_dcp_draft(d, s->st, s->lim, s->b, err)) {
        return false;
    }
    for (uint64_t i = 0; i < zf_dcp_n_keys(d); i++) {
        if (!dist_add(s, d, i, err)) {
            return false;
        }
    }
    return dist_common(s, err);
}
