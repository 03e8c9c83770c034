/* SPDX-License-Identifier: Apache-2.0 */
/* Every directory with a .zarray is a tensor, every one with shard_*.pt files a grid of objects; its
 * name is the key.  `<key>.sync` are zarr's lock files, with an empty .zarray among them.
 * Source: megatron/core/dist_checkpointing/strategies/zarr.py, strategies/common.py (0.4 … 0.9). */
#include "zarr.h"

#include <string.h>

#include <zf/base/name.h>

#include "zarr_array.h"
#include "zarr_objects.h"

#define COMMON_FILE "common.pt"

/* A file with content whose name begins with a digit. */
static bool zarr_has_chunks(struct zf_store *st, const char *key)
{
    for (struct zf_entries l = zf_store_entries(st, key); l.e < l.end; l.e++) {
        if (l.e->name[0] >= '0' && l.e->name[0] <= '9' &&
            (l.e->kind != ZF_ENTRY_FILE || l.e->id.size > 0)) {
            return true;
        }
    }
    return false;
}

static bool zarr_tensor(struct mg_save *s, const char *key, uint64_t size, struct zf_err *err)
{
    if (size > 0) {
        return mg_zarr_array(s, key, err);
    }
    if (!zarr_has_chunks(s->st, key)) {
        return true; /* of lock files that are not called .sync */
    }
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the file is empty, and there are chunks beside it");
    (void)zf_err_in(err, "%s/.zarray", key);
    return mg_zarr_lost(s, key, err);
}

static bool zarr_key(struct mg_save *s, const char *key, struct zf_err *err)
{
    const struct zf_entry *e, *found = NULL;
    size_t n;

    if (!zf_store_list(s->st, key, &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n && !found; i++) {
        found = strcmp(e[i].name, ".zarray") == 0 ? &e[i] : NULL;
    }
    return found && found->kind == ZF_ENTRY_FILE ? zarr_tensor(s, key, found->id.size, err)
                                                 : mg_zarr_objects(s, key, err);
}

bool mg_zarr(struct mg_save *s, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(s->st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (e[i].kind == ZF_ENTRY_DIR && !zf_name_ends(e[i].name, ".sync") &&
            !zarr_key(s, e[i].name, err)) {
            return false;
        }
    }
    if (!zf_store_rely(s->st, "", err)) {
        return false;
    }
    if (!zf_store_has(s->st, COMMON_FILE, ZF_ENTRY_FILE)) {
        return true;
    }
    zf_auto(source) struct zf_source *src = zf_store_open(s->st, COMMON_FILE, err);
    return src && mg_save_common(s, src, COMMON_FILE, "common", err);
}
