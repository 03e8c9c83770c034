/* SPDX-License-Identifier: Apache-2.0 */
/* storage_data: in which file, and where in it, each chunk's item stands. */
#include <string.h>

#include <zf/base/num.h>

#include "dcp_reading.h"
#include "relpath.h"

static bool take_file(struct zf_dcp_reading *r, const struct zf_pv *v, uint32_t *out,
                      struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    uint64_t n = 0, at = 0, hash;
    const char *name = zf_pv_text(v, &n), **file;
    char *path;
    uint32_t i;

    if (v && v == r->last_path) {
        *out = r->last_file;
        return true;
    }
    if (zf_pv_kind(v) != ZF_PV_STR || strlen(name) != n || !zf_relpath_ok(name)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "relative_path \"%.120s\" names no file beside .metadata", name ? name : "");
    }
    path = zf_arena_fmt(d->pickles, err, "%s%s%s", r->dir, *r->dir ? "/" : "", name);
    if (!path) {
        return false;
    }
    hash = zf_dcp_table_hash(d->seed, path, strlen(path));
    while ((i = zf_dcp_table_next(&d->files, hash, &at)) != ZF_DCP_NONE &&
           strcmp(d->file[i], path) != 0) {
    }
    if (i == ZF_DCP_NONE) {
        file = zf_dcp_room(d->file, d->n_files + 1, &d->cap_files, sizeof *file, err);
        if (!file) {
            return false;
        }
        d->file = file;
        i = (uint32_t)d->n_files;
        if (!zf_dcp_table_add(&d->files, hash, i, err)) {
            return false;
        }
        d->file[d->n_files++] = path;
    }
    r->last_path = v;
    r->last_file = *out = i;
    return true;
}

static enum zf_dcp_wrap read_wrap(const struct zf_pv *list)
{
    uint64_t n = 0;
    const char *name = zf_pv_text(zf_pv_item(list, 0), &n);

    if (zf_pv_len(list) == 0) {
        return ZF_DCP_PLAIN;
    }
    return zf_pv_len(list) == 1 && name && strncmp(name, "stream.zstd", 11) == 0 ? ZF_DCP_ZSTD
                                                                                 : ZF_DCP_OTHER;
}

/* Takes one _StorageInfo for chunk c. */
static bool take_info(struct zf_dcp_reading *r, struct zf_dcp_chunk *c, const struct zf_pv *v,
                      struct zf_err *err)
{
    const char *name = r->d->key[c->key].name;
    uint64_t end;

    if (c->file != ZF_DCP_NONE || c->lost) {
        c->file = ZF_DCP_NONE;
        c->lost = true;
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": storage_data has two items for one chunk", name);
    }
    c->lost = true;
    if (!zf_pv_u64(zf_pv_attr(v, "offset"), &c->off) ||
        !zf_pv_u64(zf_pv_attr(v, "length"), &c->len) || !zf_add(c->off, c->len, &end) ||
        end > INT64_MAX) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": an item's offset and length are not numbers that make sense",
                       name);
    }
    if (!take_file(r, zf_pv_attr(v, "relative_path"), &c->file, err)) {
        return zf_err_in(err, "!%.160s", name);
    }
    c->wrap = read_wrap(zf_pv_attr(v, "transform_descriptors"));
    c->lost = false;
    return true;
}

/* Takes one pair of storage_data. */
static bool take_item(struct zf_dcp_reading *r, const struct zf_pv *index, const struct zf_pv *info,
                      struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    const struct zf_pv *fqn = zf_pv_attr(index, "fqn"), *offset = zf_pv_attr(index, "offset");
    uint64_t n = 0, *start;
    const char *name = zf_pv_kind(fqn) == ZF_PV_STR ? zf_pv_text(fqn, &n) : NULL;
    uint32_t key = name ? zf_dcp_find_key(d, name, n) : ZF_DCP_NONE, chunk;

    if (key == ZF_DCP_NONE) {
        r->n_strange++;
        return true;
    }
    start = zf_dcp_box_room(d, d->key[key].ndim, err);
    if (!start) {
        return false;
    }
    if (!d->key[key].is_bytes && !zf_dcp_read_size(offset, d->key[key].ndim, start)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": storage_data has an offset that is not %u numbers >= 0", name,
                       d->key[key].ndim);
    }
    chunk = zf_dcp_find_chunk(d, key, start, r->first_chunk);
    if (chunk == ZF_DCP_NONE) {
        return true; /* an empty shard, or the copy of another rank */
    }
    return take_info(r, &d->chunk[chunk], info, err);
}

bool zf_dcp_take_storage(struct zf_dcp_reading *r, const struct zf_pv *dict, struct zf_err *err)
{
    for (uint64_t i = 0; i < zf_pv_len(dict); i++) {
        if (!take_item(r, zf_pv_key(dict, i), zf_pv_val(dict, i), err) && !zf_dcp_settle(r, err)) {
            return false;
        }
    }
    return !r->n_strange ||
           zf_build_note(r->b, err, "storage_data has %llu items that nothing describes",
                         (unsigned long long)r->n_strange);
}
