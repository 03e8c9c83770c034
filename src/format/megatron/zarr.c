/* SPDX-License-Identifier: Apache-2.0 */
/* Every directory with a .zarray is a tensor, every one with shard_*.pt files a grid of objects; its
 * name is the key.  `<key>.sync` are zarr's lock files, with an empty .zarray among them.
 * Source: megatron/core/dist_checkpointing/strategies/zarr.py, strategies/common.py (0.4 … 0.9). */
#include "steps.h"

#include <string.h>

#include <zf/base/ahead.h>
#include <zf/base/name.h>

#include "zarr_array.h"
#include "zarr_objects.h"

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
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                  "the file is empty, and there are chunks beside it");
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

/* The directories of keys: their files' attributes are most of what opening such a save takes, so they are
 * asked for by several threads. */
struct zarr_keys {
    struct zf_store *st;
    const char **key;
    uint64_t n;
};

static void *zarr_list_ahead(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct zarr_keys *k = ctx;
    const struct zf_entry *e;
    size_t n;

    return zf_store_list(k->st, k->key[i], &e, &n, err) ? ctx : NULL;
}

static bool zarr_find_keys(struct mg_save *s, struct zarr_keys *k, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    *k = (struct zarr_keys){.st = s->st};
    if (!zf_store_list(s->st, "", &e, &n, err) ||
        !(k->key = zf_arena_get(s->arena, n, sizeof *k->key, err))) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (e[i].kind == ZF_ENTRY_DIR && !zf_name_ends(e[i].name, ".sync")) {
            k->key[k->n++] = e[i].name;
        }
    }
    return true;
}

static bool zarr_keys(struct mg_save *s, struct zf_err *err)
{
    struct zarr_keys k;

    if (!zarr_find_keys(s, &k, err)) {
        return false;
    }
    const struct zf_ahead_work work = {.make = zarr_list_ahead,
                                       .ctx = &k}; /* the store keeps them */
    zf_auto(ahead) struct zf_ahead *ahead = zf_ahead_new(work, k.n, err);
    for (uint64_t i = 0; ahead && i < k.n; i++) {
        if (!zf_ahead_take(ahead, err) || !zarr_key(s, k.key[i], err)) {
            return false;
        }
    }
    return ahead != NULL;
}

bool mg_zarr(struct mg_save *s, struct zf_err *err)
{
    return zarr_keys(s, err) && zf_store_rely(s->st, "", err) && mg_save_common_file(s, 0, err);
}
