/* SPDX-License-Identifier: Apache-2.0 */
#include "bytes_items.h"

#include <string.h>

#include <zf/base/out.h>
#include <zf/codec/json.h>
#include <zf/codec/pvjson.h>

#include "items.h"
#include "whole.h"

#define WHOLE_MAX 1024 /* items checked while mounting, a few small reads each */
#define WHOLE_ZSTD_MAX (1u << 20)

/* Mounting reads metadata; this much more is well spent on learning rate and step. */
#define ITEM_MAX (64u << 10)
#define TOTAL_MAX (256u << 10)

static bool bytes_check_one(struct dcp_placing *p, struct dcp_chunk *c, struct zf_err *err)
{
    if (p->n_whole >= WHOLE_MAX || (c->item.wrap == ZF_DCP_ZSTD && c->item.len > WHOLE_ZSTD_MAX)) {
        return true;
    }
    p->n_whole++;
    c->whole = dcp_whole(p->file[c->item.file], c->item, p->lim, err);
    return c->whole || zf_err_in(err, "!%.160s", p->d->key[c->key].name);
}

bool dcp_bytes_check(struct dcp_placing *p, const uint32_t *order, uint64_t n, struct zf_err *err)
{
    for (uint64_t i = 0; i < n; i++) {
        struct dcp_chunk *c = &p->d->chunk[order[i]];

        if (!c->lost && p->d->key[c->key].is_bytes && !bytes_check_one(p, c, err) &&
            !dcp_lose(p, c, err)) {
            return false;
        }
    }
    return true;
}

struct zf_source *dcp_bytes_source(const struct zf_dcp *d, const struct dcp_chunk *c,
                                   struct zf_err *err)
{
    struct zf_source *file = c->item.file == ZF_DCP_NONE ? NULL : d->source[c->item.file];

    return c->lost || !file
               ? zf_lost_new(c->item.len, "the item of these bytes is missing or damaged", err)
               : dcp_whole_new(file, c->item, &d->lim, err);
}

bool dcp_bytes(struct dcp_placing *p, const struct dcp_chunk *c, struct zf_err *err)
{
    const char *path = zf_names_blob(p->names, p->path[c->key], err);
    zf_auto(source) struct zf_source *src = NULL;

    if (!path) {
        return false;
    }
    if (!c->lost && c->whole) {
        return zf_build_blob(p->b, path, p->file[c->item.file], c->item.off, c->item.len, err);
    }
    src = dcp_bytes_source(p->d, c, err);
    return src && zf_build_blob(p->b, path, src, 0, c->item.len, err);
}

/* The JSON of one item, or NULL. */
static char *bytes_value_of(struct dcp_placing *p, const struct dcp_chunk *c, uint64_t *len_out)
{
    zf_auto(dcp_look) struct dcp_look look = {0};
    struct zf_err ignored;
    char *text = NULL;

    zf_err_clear(&ignored);
    if (!dcp_look_init(&look, p->file[c->item.file], c->item, ITEM_MAX * 16u, p->lim, &ignored) ||
        !look.torch || zf_torch_kind(look.torch, zf_torch_root(look.torch)) != ZF_TORCH_NOT ||
        !zf_pv_json(zf_torch_root(look.torch), p->lim, NULL, &text, len_out, &ignored)) {
        return NULL;
    }
    return text;
}

/* Appends "key": value. */
static bool bytes_add_entry(struct zf_out *out, const struct zf_path *path, const char *value,
                            uint64_t n, struct zf_err *err)
{
    zf_auto(out) struct zf_out key = {0};

    if (!zf_path_join(&key, *path, err)) {
        return false;
    }
    json_t *name = json_stringn(zf_out_text(&key), key.n); /* NULL: not UTF-8 */
    zf_auto(mem) char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;

    json_decref(name);
    if (!quoted) {
        return true;
    }
    while (n && value[n - 1] == '\n') {
        n--;
    }
    zf_out_str(out, out->n ? ",\n" : "{\n");
    zf_out_str(out, quoted);
    zf_out_str(out, ": ");
    zf_out_add(out, value, n);
    return zf_out_ok(out, err);
}

bool dcp_state(struct dcp_placing *p, struct zf_err *err)
{
    const struct zf_dcp *d = p->d;
    zf_auto(out) struct zf_out out = {0};
    uint64_t total = 0;

    for (uint64_t i = 0; i < d->n_chunks; i++) {
        const struct dcp_chunk *c = &d->chunk[i];
        const struct dcp_key *k = &d->key[c->key];
        zf_auto(mem) char *value = NULL;
        uint64_t n = 0;

        if (!k->is_bytes || c->lost || c->item.len > ITEM_MAX || total + c->item.len > TOTAL_MAX ||
            zf_names_extra_state(k->name, strlen(k->name))) {
            continue;
        }
        total += c->item.len;
        value = bytes_value_of(p, c, &n);
        if (value && !bytes_add_entry(&out, &p->path[c->key], value, n, err)) {
            return false;
        }
    }
    if (out.n == 0) {
        return true;
    }
    zf_out_str(&out, "\n}\n");
    return zf_out_ok(&out, err) && zf_build_text(p->b, "state/checkpoint.json", out.p, out.n, err);
}
