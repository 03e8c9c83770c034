/* SPDX-License-Identifier: Apache-2.0 */
/* storage_data: in which file, and where in it, each chunk's item stands. */
#include <string.h>

#include <zf/base/num.h>
#include <zf/base/path.h>

#include "reading.h"
#include "replicas.h"

static bool take_file(struct zf_dcp_reading *r, const struct zf_pv *v, uint32_t *out,
                      struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    uint64_t n = 0, at = 0, hash;
    const char *name = zf_pv_text(v, &n), **file;
    char *path;
    uint64_t *end;
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
        end = zf_dcp_room(d->file_end, d->n_files + 1, &d->cap_ends, sizeof *end, err);
        if (!end) {
            return false;
        }
        d->file_end = end;
        i = (uint32_t)d->n_files;
        if (!zf_dcp_table_add(&d->files, hash, i, err)) {
            return false;
        }
        d->file_end[d->n_files] = 0;
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

/* Where an item is. */
struct item_place {
    uint32_t file;
    uint64_t off, len;
};

/* Reads one _StorageInfo, and that its file reaches so far, whoever owns the item. */
static bool read_place(struct zf_dcp_reading *r, const struct zf_pv *v, const char *name,
                       struct item_place *out, struct zf_err *err)
{
    uint64_t end;

    if (!zf_pv_u64(zf_pv_attr(v, "offset"), &out->off) ||
        !zf_pv_u64(zf_pv_attr(v, "length"), &out->len) || !zf_add(out->off, out->len, &end) ||
        end > INT64_MAX) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": an item's offset and length are not numbers that make sense",
                       name);
    }
    if (!take_file(r, zf_pv_attr(v, "relative_path"), &out->file, err)) {
        return zf_err_in(err, "!%.160s", name);
    }
    if (end > r->d->file_end[out->file]) {
        r->d->file_end[out->file] = end;
    }
    return true;
}

/* An item that no chunk needs (a copy of another rank, an empty shard) tells how long its file is; that of a
 * value which all ranks share is compared later.  chunk: the one that is shown, or ZF_DCP_NONE. */
static bool pass_over(struct zf_dcp_reading *r, const struct zf_pv *info, uint32_t chunk,
                      struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    struct zf_dcp_copy *copy;
    struct item_place place;

    if (!read_place(r, info, "", &place, err)) {
        bool odd = err->code == ZF_E_FORMAT;

        zf_err_clear(err);
        return odd ||
               zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the files of a save");
    }
    if (chunk == ZF_DCP_NONE || !zf_dcp_is_shared(&d->key[d->chunk[chunk].key])) {
        return true;
    }
    copy = zf_dcp_room(d->copy, d->n_copies + 1, &d->cap_copies, sizeof *copy, err);
    if (!copy) {
        return false;
    }
    d->copy = copy;
    copy[d->n_copies++] = (struct zf_dcp_copy){
        .chunk = chunk,
        .file = place.file,
        .off = place.off,
        .len = place.len,
        .wrap = read_wrap(zf_pv_attr(info, "transform_descriptors")),
    };
    return true;
}

/* Takes one _StorageInfo for chunk c. */
static bool take_info(struct zf_dcp_reading *r, struct zf_dcp_chunk *c, const struct zf_pv *v,
                      struct zf_err *err)
{
    const char *name = r->d->key[c->key].name;
    struct item_place place;

    if (c->file != ZF_DCP_NONE || c->lost) {
        c->file = ZF_DCP_NONE;
        c->lost = true;
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": storage_data has two items for one chunk", name);
    }
    c->lost = true;
    if (!read_place(r, v, name, &place, err)) {
        return false;
    }
    c->file = place.file;
    c->off = place.off;
    c->len = place.len;
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
        return pass_over(r, info, ZF_DCP_NONE, err);
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
        /* an empty shard, or the copy of another rank */
        return pass_over(r, info, zf_dcp_find_chunk(d, key, start, 0), err);
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
