/* SPDX-License-Identifier: Apache-2.0 */
/* Opens one metadata file and reads every part of it. */
#include "metadata.h"

#include <string.h>

#include "mcore_data.h"
#include "paths.h"
#include "state_metadata.h"
#include "storage_data.h"

static bool file_take_root(struct dcp_reading *r, const struct zf_pv *root, struct zf_err *err)
{
    const struct zf_pv *state = zf_pv_attr(root, "state_dict_metadata");
    const struct zf_pv *storage = zf_pv_attr(root, "storage_data");

    if (!zf_pv_is_map(state)) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "is a pickle of \"%.80s\" without state_dict_metadata, expected the Metadata of "
            "torch.distributed.checkpoint",
            *zf_pv_name(root) ? zf_pv_name(root) : "a plain value");
    }
    if (!zf_pv_is_map(storage)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "has no storage_data that says where the items are");
    }
    if (!dcp_take_state(r, state, err) || !dcp_take_storage(r, storage, err) ||
        !dcp_take_mcore(r, zf_pv_attr(root, "mcore_data"), err)) {
        return false;
    }
    return dcp_take_paths(r, zf_pv_attr(root, "planner_data"), err);
}

/* The values of one pickle; its bytes are not kept. */
static const struct zf_pv *file_load(struct dcp_reading *r, struct zf_store *st, struct zf_err *err)
{
    uint64_t n = 0;
    zf_auto(mem) char *text = zf_store_slurp(st, r->path, r->lim->pickle_bytes, &n, err);
    struct zf_bytes in = zf_bytes_of(text, n);
    const struct zf_pv *root;

    if (!text) {
        return NULL;
    }
    root = zf_pickle_load(&in, r->d->pickles, r->lim, err);
    if (!root) {
        (void)dcp_in_file(r, err);
    }
    return root;
}

bool zf_dcp_read(struct zf_dcp *d, struct zf_store *st, const char *dir, const char *name,
              const struct zf_limits *lim, struct zf_build *b, struct zf_err *err)
{
    struct dcp_reading r = {.d = d, .lim = lim, .b = b, .dir = dir, .first_chunk = d->n_chunks};
    const struct zf_pv *root;

    d->n_passes++;
    r.path = zf_arena_fmt(d->pickles, err, "%s%s%s", dir, *dir ? "/" : "", name);
    if (!r.path) {
        return false;
    }
    root = file_load(&r, st, err);
    return root && (file_take_root(&r, root, err) || dcp_in_file(&r, err));
}
