/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/out.h>

#include "mcore_data.h"
#include "state_metadata.h"
#include "storage_data.h"

/* Writes the steps of a path with dots between them, as torch makes a key of them.  False: a
 * step is neither a name nor a position, so that it is no path.  Source: torch/distributed/checkpoint/
 * _nested_dict.py, flatten_state_dict (2.0 … 2.14). */
static bool file_join_path(const struct zf_pv *path, struct zf_out *out)
{
    char digits[24];

    zf_out_cut(out, 0);
    if (!zf_pv_is_seq(path)) {
        return false;
    }
    for (uint64_t i = 0; i < zf_pv_len(path); i++) {
        const struct zf_pv *v = zf_pv_item(path, i);
        uint64_t n = 0;
        int64_t at;
        const char *step = zf_pv_kind(v) == ZF_PV_STR ? zf_pv_text(v, &n) : NULL;

        if (!step && zf_pv_kind(v) == ZF_PV_INT && zf_pv_int(v, &at)) {
            n = (uint64_t)snprintf(digits, sizeof digits, "%" PRId64, at);
            step = digits;
        }
        if (!step) {
            return false;
        }
        zf_out_str(out, i ? "." : "");
        zf_out_add(out, step, n);
    }
    return true;
}

/* A path decides the name under which a tensor is shown, so it must spell its key. */
static bool file_take_path(struct zf_dcp_reading *r, struct zf_dcp_key *key,
                           const struct zf_pv *path, struct zf_out *joined, struct zf_err *err)
{
    if (!file_join_path(path, joined)) {
        return true; /* another planner's own */
    }
    if (!zf_out_ok(joined, err)) {
        return false;
    }
    if (joined->n == key->name_len && memcmp(zf_out_text(joined), key->name, joined->n) == 0) {
        key->path = path;
        return true;
    }
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                  "planner_data says that the key \"%.100s\" is at \"%.100s\" of the state dict: "
                  "which of them is it?",
                  key->name, zf_out_text(joined));
    return zf_dcp_settle(r, err);
}

static bool file_take_paths(struct zf_dcp_reading *r, const struct zf_pv *planner,
                            struct zf_err *err)
{
    zf_auto(out) struct zf_out joined = {0};

    for (uint64_t i = 0; i < zf_pv_len(planner); i++) {
        uint64_t n = 0;
        const char *name = zf_pv_text(zf_pv_key(planner, i), &n);
        uint32_t key = name ? zf_dcp_find_key(r->d, name, n) : ZF_DCP_NONE;

        if (key != ZF_DCP_NONE &&
            !file_take_path(r, &r->d->key[key], zf_pv_val(planner, i), &joined, err)) {
            return false;
        }
    }
    return true;
}

static bool file_take_root(struct zf_dcp_reading *r, const struct zf_pv *root, struct zf_err *err)
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
    if (!zf_dcp_take_state(r, state, err) || !zf_dcp_take_storage(r, storage, err) ||
        !zf_dcp_take_mcore(r, zf_pv_attr(root, "mcore_data"), err)) {
        return false;
    }
    return file_take_paths(r, zf_pv_attr(root, "planner_data"), err);
}

/* The values of one pickle; its bytes are not kept. */
static const struct zf_pv *file_load(struct zf_dcp_reading *r, struct zf_store *st,
                                     struct zf_err *err)
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
        (void)zf_dcp_in_file(r, err);
    }
    return root;
}

bool zf_dcp_read(struct zf_dcp *d, struct zf_store *st, const char *dir, const char *name,
                 const struct zf_limits *lim, struct zf_build *b, struct zf_err *err)
{
    struct zf_dcp_reading r = {.d = d, .lim = lim, .b = b, .dir = dir, .first_chunk = d->n_chunks};
    const struct zf_pv *root;

    d->n_passes++;
    r.path = zf_arena_fmt(d->pickles, err, "%s%s%s", dir, *dir ? "/" : "", name);
    if (!r.path) {
        return false;
    }
    root = file_load(&r, st, err);
    return root && (file_take_root(&r, root, err) || zf_dcp_in_file(&r, err));
}
