/* SPDX-License-Identifier: Apache-2.0 */
/* Reads storage_data: the file range that holds each chunk's item. */
#include "metadata.h"

#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/base/path.h>
#include <zf/base/vec.h>
#include <zf/codec/torch.h>

/* Takes the file that a _StorageInfo names by relative_path. */
static bool storage_take_file(struct dcp_reading *r, const struct zf_pv *v, uint32_t *out,
                              struct zf_err *err)
{
    uint64_t n = 0;
    const char *name = zf_pv_text(v, &n);
    char path[4096]; /* longer ones cannot be opened */

    if (v && v == r->last_path) {
        *out = r->last_file;
        return true;
    }
    if (zf_pv_kind(v) != ZF_PV_STR || strlen(name) != n || !zf_relpath_ok(name)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "relative_path \"%.120s\" is not the name of a file next to .metadata",
                       name ? name : "");
    }
    if ((size_t)snprintf(path, sizeof path, "%s%s%s", r->dir, *r->dir ? "/" : "", name) >=
        sizeof path)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "relative_path \"%.120s\" is too long", name);
    if (!dcp_take_file(r->d, path, out, err))
        return false;
    r->last_path = zf_pv_many(v) ? v : NULL; /* a freed value's address may be reused */
    r->last_file = *out;
    return true;
}

static enum dcp_wrap storage_wrap(const struct zf_pv *list)
{
    uint64_t n = 0;
    const char *name = zf_pv_text(zf_pv_item(list, 0), &n);

    if (zf_pv_len(list) == 0)
        return ZF_DCP_PLAIN;
    return zf_pv_len(list) == 1 && name && strcmp(name, "stream.zstd/1") == 0 ? ZF_DCP_ZSTD
                                                                              : ZF_DCP_OTHER;
}

/* Reads one _StorageInfo.  Its file must reach to the end of the item, whichever chunk owns it. */
static bool storage_read_item(struct dcp_reading *r, const struct zf_pv *v, const char *name,
                              struct dcp_item *out, struct zf_err *err)
{
    uint64_t end;

    if (!zf_pv_u64(zf_pv_attr(v, "offset"), &out->off) ||
        !zf_pv_u64(zf_pv_attr(v, "length"), &out->len) || !zf_add(out->off, out->len, &end) ||
        end > INT64_MAX) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "\"%.160s\": an item's offset or length is not a number of bytes that a file can have",
            name);
    }
    if (!storage_take_file(r, zf_pv_attr(v, "relative_path"), &out->file, err))
        return zf_err_in(err, "!%.160s", name);
    out->wrap = storage_wrap(zf_pv_attr(v, "transform_descriptors"));
    if (end > r->d->file.at[out->file].end)
        r->d->file.at[out->file].end = end;
    return true;
}

static bool storage_word(const char *name, const char *const *list)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

/* Is it a number or setting that all ranks of one save share: a step, an epoch, a learning rate?
 * Random states and samplers are a rank's own. */
static bool storage_is_shared(const struct dcp_key *k)
{
    static const char *const counted[] = {"step",       "global_step", "global_steps",
                                          "iteration",  "epoch",       "last_epoch",
                                          "world_size", "_step_count", NULL};
    static const char *const setting[] = {"lr", "initial_lr", "betas", "eps", NULL};
    static const char *const own[] = {"rng", "random", "loader", "sampler", "dataset", NULL};
    const char *dot = strrchr(k->name, '.'), *last = dot ? dot + 1 : k->name;

    for (size_t i = 0; own[i]; i++)
        if (strstr(k->name, own[i]))
            return false;
    return storage_word(last, counted) ||
           (strstr(k->name, "param_groups.") && storage_word(last, setting));
}

/* Skips an item that no chunk needs: an empty shard, or another rank's copy.  It still gives a minimum
 * length of its file; the copy of a value that all ranks share is compared later (replicas.c).
 * chunk: the one that is shown, or ZF_DCP_NONE. */
static bool storage_pass_over(struct dcp_reading *r, const struct zf_pv *info, uint32_t chunk,
                              struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    struct dcp_copy *copy;
    struct dcp_item item;

    if (!storage_read_item(r, info, "", &item, err)) {
        if (err->code != ZF_E_FORMAT)
            return false;
        zf_err_clear(err);
        return true;
    }
    if (chunk == ZF_DCP_NONE || !storage_is_shared(&d->key.at[d->chunk.at[chunk].key]))
        return true;
    copy = zf_vec_push(&d->copy, err);
    if (copy)
        *copy = (struct dcp_copy){.chunk = chunk, .item = item};
    return copy != NULL;
}

/* Takes one _StorageInfo for chunk c. */
static bool storage_take_info(struct dcp_reading *r, struct dcp_chunk *c, const struct zf_pv *v,
                              struct zf_err *err)
{
    const char *name = r->d->key.at[c->key].name;
    struct dcp_item item;

    if (c->item.file != ZF_DCP_NONE || c->lost) {
        c->item.file = ZF_DCP_NONE;
        c->lost = true;
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": storage_data has two items for one chunk", name);
    }
    c->lost = true;
    if (!storage_read_item(r, v, name, &item, err))
        return false;
    c->item = item;
    c->lost = false;
    return true;
}

/* Takes one pair of storage_data. */
static bool storage_take_item(struct dcp_reading *r, const struct zf_pv *index,
                              const struct zf_pv *info, struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    const struct zf_pv *fqn = zf_pv_attr(index, "fqn"), *offset = zf_pv_attr(index, "offset");
    uint64_t n = 0, *start;
    const char *name = zf_pv_kind(fqn) == ZF_PV_STR ? zf_pv_text(fqn, &n) : NULL;
    uint32_t key = name ? dcp_find_key(d, name, n) : ZF_DCP_NONE, chunk;

    if (key == ZF_DCP_NONE) {
        r->n_strange++;
        return storage_pass_over(r, info, ZF_DCP_NONE, err);
    }
    start = dcp_box_room(d, d->key.at[key].ndim, err);
    if (!start)
        return false;
    if (!d->key.at[key].is_bytes && !zf_torch_extents(offset, d->key.at[key].ndim, start)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": storage_data has an offset that is not %u numbers >= 0", name,
                       d->key.at[key].ndim);
    }
    chunk = dcp_find_chunk(d, key, start, r->first_chunk);
    if (chunk == ZF_DCP_NONE) {
        /* an empty shard, or the copy of another rank */
        return storage_pass_over(r, info, dcp_find_chunk(d, key, start, 0), err);
    }
    return storage_take_info(r, &d->chunk.at[chunk], info, err);
}

bool dcp_take_storage(struct dcp_reading *r, const struct zf_pv *index, const struct zf_pv *info,
                      struct zf_err *err)
{
    return storage_take_item(r, index, info, err) || dcp_forgive(r, err);
}

bool dcp_end_storage(const struct dcp_reading *r, struct zf_err *err)
{
    return !r->n_strange ||
           zf_build_note(r->b, err,
                         "storage_data has %llu items that state_dict_metadata does not describe",
                         (unsigned long long)r->n_strange);
}
