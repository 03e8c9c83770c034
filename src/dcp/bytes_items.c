/* SPDX-License-Identifier: Apache-2.0 */
#include "bytes_items.h"

#include <string.h>

#include <zf/assemble/item_json.h>

#include "items.h"
#include "whole.h"

#define WHOLE_MAX 1024 /* items checked while mounting, a few small reads each */
#define WHOLE_ZSTD_MAX (1u << 20)

static bool bytes_check_one(struct dcp_placing *p, struct dcp_chunk *c, struct zf_err *err)
{
    if (p->n_whole >= WHOLE_MAX || (c->item.wrap == ZF_DCP_ZSTD && c->item.len > WHOLE_ZSTD_MAX))
        return true;
    p->n_whole++;
    c->whole = dcp_whole(p->file[c->item.file], c->item, p->lim, err);
    return c->whole || zf_err_in(err, "!%.160s", p->d->key.at[c->key].name);
}

bool dcp_bytes_check(struct dcp_placing *p, const uint32_t *order, uint64_t n, struct zf_err *err)
{
    for (uint64_t i = 0; i < n; i++) {
        struct dcp_chunk *c = &p->d->chunk.at[order[i]];

        if (!c->lost && p->d->key.at[c->key].is_bytes && !bytes_check_one(p, c, err) &&
            !dcp_mark_lost(p, c, err))
            return false;
    }
    return true;
}

const struct zf_source_kind *const zf_dcp_kinds[] = {&dcp_items_kind, &dcp_whole_kind, NULL};

struct zf_source *dcp_bytes_source(const struct zf_dcp *d, const struct dcp_chunk *c,
                                   struct zf_err *err)
{
    struct zf_source *file = c->item.file == ZF_DCP_NONE ? NULL : d->source[c->item.file];

    return c->lost || !file
               ? zf_lost_new(c->item.len, "the item of these bytes is missing or damaged", err)
               : dcp_whole_new(file, c->item, &d->lim, err);
}

bool dcp_bytes_disambiguate(struct dcp_placing *p, struct zf_err *err)
{
    struct zf_sorted paths = {0}; /* hash of the path, number of the key */
    struct zf_dcp *d = p->d;
    struct zf_path path;
    size_t at;
    bool ok = true;

    for (uint32_t i = 0; ok && d->n_groups > 1 && i < d->key.n; i++) {
        ok = !d->key.at[i].is_bytes || (dcp_path(d, &d->key.at[i], &p->room, &path, err) &&
                                        zf_sorted_add_pair(&paths, zf_path_hash(path), i, err));
    }
    (void)zf_sorted_find(&paths, 0, &at); /* sorts them */
    for (size_t i = 1; ok && i < paths.n; i++)
        d->key.at[paths.at[2 * i + 1]].apart = paths.at[2 * i] == paths.at[2 * i - 2];
    zf_sorted_fini(&paths);
    return ok;
}

bool dcp_bytes(struct dcp_placing *p, const struct dcp_chunk *c, struct zf_err *err)
{
    struct zf_path steps;
    const char *path = dcp_path(p->d, &p->d->key.at[c->key], &p->room, &steps, err)
                           ? zf_names_blob(p->names, steps, err)
                           : NULL;
    zf_auto(source) struct zf_source *src = NULL;

    if (!path)
        return false;
    if (!c->lost && c->whole)
        return zf_build_blob(p->b, path, p->file[c->item.file], c->item.off, c->item.len, err);
    src = dcp_bytes_source(p->d, c, err);
    return src && zf_build_blob(p->b, path, src, 0, c->item.len, err);
}

bool dcp_state(struct dcp_placing *p, struct zf_err *err)
{
    const struct zf_dcp *d = p->d;
    zf_auto(item_json) struct zf_item_json json = {0};
    zf_auto(out) struct zf_out key = {0};

    for (uint64_t i = 0; i < d->chunk.n; i++) {
        const struct dcp_chunk *c = &d->chunk.at[i];
        const struct dcp_key *k = &d->key.at[c->key];
        zf_auto(dcp_look) struct dcp_look look = {0};
        const char *extra;
        struct zf_path path;
        struct zf_err ignored;
        bool all;

        zf_err_clear(&ignored);
        if (!k->is_bytes || c->lost || zf_names_extra_state(k->name, strlen(k->name)) ||
            !zf_item_json_wants(&json, c->item.len) ||
            !dcp_look_init(&look, p->file[c->item.file], c->item, ZF_ITEM_JSON_MAX * 16u, p->lim,
                           &ignored) ||
            !look.torch)
            continue;
        if (!dcp_path(d, k, &p->room, &path, err) || !zf_path_join(&key, path, err) ||
            !zf_item_json_add(&json, look.torch,
                              (struct zf_step){.p = zf_out_text(&key), .n = key.n}, p->lim, &all,
                              err))
            return false;
        extra = all ? zf_names_blob(p->names, path, err) : NULL;
        if (all && !(extra && zf_build_told(p->b, extra, err)))
            return false;
    }
    return zf_item_json_end(&json, p->b, "state/checkpoint.json", err);
}
