/* SPDX-License-Identifier: Apache-2.0 */
/* A directory with a .zarray is a tensor; one with shard_*.pt files is a grid of objects.  Its name is the
 * key.  `<key>.sync` has zarr's lock files, including an empty .zarray.
 * Source: megatron/core/dist_checkpointing/strategies/zarr.py, strategies/common.py (0.4 … 0.9). */
#include "steps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/zarr.h>
#include <zf/base/ahead.h>
#include <zf/base/name.h>
#include <zf/base/num.h>
#include <zf/base/out.h>
#include <zf/base/path.h>

/* ---- objects ---- */

/* ShardedObjects: "<key>/shard_<offset>_<shape>.pt"; offset and shape are numbers joined by dots.  Up to 0.7
 * the suffix replaced the last number of the shape, which then has one number less than the offset
 * ("shard_0.1_1.pt" of shape 1.2); the missing one is the largest last number of an offset, plus 1.  An
 * object has the same key as in a DCP save: "<key>/shard_0.1_1.2".
 * Source: megatron/core/dist_checkpointing/strategies/common.py (0.4 … 0.9): with_suffix('.pt'), and its
 * workaround when loading. */
#define PREFIX "shard_"
#define SUFFIX ".pt"

/* The parts of a file's name, which point into it. */
struct object_name {
    const char *offset, *shape, *last; /* last: the last number of the offset */
    size_t offset_len, shape_len;
    bool cut; /* the shape lacks its last number */
};

/* Parses numbers joined by dots; *n_out: their number, *last_out: the beginning of the last one. */
static size_t zarr_object_numbers(const char *p, unsigned *n_out, const char **last_out)
{
    const char *at = p;

    *n_out = 0;
    for (;;) {
        size_t digits = strspn(at, "0123456789");

        if (digits == 0 || digits > 18 || (digits > 1 && *at == '0'))
            return 0;
        *last_out = at;
        at += digits;
        (*n_out)++;
        if (*at != '.' || at[1] < '0' || at[1] > '9')
            return (size_t)(at - p);
        at++;
    }
}

static bool zarr_object_parse(const char *name, struct object_name *out)
{
    unsigned n_offset, n_shape;
    const char *ignored;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return false;
    out->offset = name + strlen(PREFIX);
    out->offset_len = zarr_object_numbers(out->offset, &n_offset, &out->last);
    if (out->offset_len == 0 || out->offset[out->offset_len] != '_')
        return false;
    out->shape = out->offset + out->offset_len + 1;
    out->shape_len = zarr_object_numbers(out->shape, &n_shape, &ignored);
    out->cut = n_shape + 1 == n_offset;
    return out->shape_len > 0 && (out->cut || n_shape == n_offset) &&
           strcmp(out->shape + out->shape_len, SUFFIX) == 0;
}

/* The largest last number of an offset among those files, plus 1. */
static uint64_t zarr_object_last_extent(const struct zf_entry *e, size_t n)
{
    struct object_name o;
    uint64_t most = 0;

    for (size_t i = 0; i < n; i++) {
        if (zarr_object_parse(e[i].name, &o)) {
            uint64_t at = strtoull(o.last, NULL, 10);

            most = at >= most ? at + 1 : most;
        }
    }
    return most;
}

static bool zarr_object_add(struct mg_save *s, const char *key, const char *file,
                            const struct object_name *o, uint64_t extent, struct zf_err *err)
{
    zf_auto(out) struct zf_out name = {0};
    zf_auto(mem) char *path = zf_relpath_join(key, file, err);
    zf_auto(source) struct zf_source *src = path ? zf_store_open_later(s->st, path, err) : NULL;

    if (!src)
        return false;
    zf_out_fmt(&name, "%s%s", key, "/" PREFIX);
    zf_out_add(&name, o->offset, o->offset_len + 1 + o->shape_len);
    if (o->cut)
        zf_out_fmt(&name, ".%" PRIu64, extent);
    if (name.bad)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    return mg_save_object(s, name.p, name.n, src, err) != NULL;
}

/* Notes objects that are missing of a key's grid: `n` files are there, each names the grid's shape, but for its last
 * number where that is cut off: then there are at least `extent`. */
static bool zarr_objects_note(struct mg_save *s, const char *key, const struct object_name *o,
                              uint64_t extent, uint64_t n, struct zf_err *err)
{
    uint64_t all = o->cut ? extent : 1;

    for (const char *p = o->shape; p < o->shape + o->shape_len; p++) {
        char *end;

        if (!zf_mul(all, strtoull(p, &end, 10), &all))
            return true;
        p = end;
    }
    return n >= all ||
           zf_build_note(s->b, err, "%s: %" PRIu64 " of %" PRIu64 " objects are missing or empty",
                         key, all - n, all);
}

static bool zarr_objects(struct mg_save *s, const char *key, struct zf_err *err)
{
    const struct zf_entry *e;
    struct object_name o, last = {0};
    uint64_t found = 0;
    size_t n;

    if (!zf_store_list(s->st, key, &e, &n, err))
        return false;
    const uint64_t extent = zarr_object_last_extent(e, n);
    for (size_t i = 0; i < n; i++) {
        if (!zarr_object_parse(e[i].name, &o))
            continue;
        /* Two files for the same offset (shard_0.1_1.pt, shard_0.1_1.2.pt) are neighbours in a listing. */
        if (last.offset && last.offset_len == o.offset_len &&
            memcmp(last.offset, o.offset, o.offset_len) == 0) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%.*s is also in another file",
                          (int)o.offset_len, o.offset);
            return zf_err_in(err, "%s/%s", key, e[i].name);
        }
        last = o;
        if (e[i].kind == ZF_ENTRY_FILE && e[i].id.size == 0)
            continue; /* torch.save writes no such file */
        if (!zarr_object_add(s, key, e[i].name, &o, extent, err))
            return false;
        found++;
    }
    return !last.offset ||
           (zarr_objects_note(s, key, &last, extent, found, err) && zf_store_rely(s->st, key, err));
}

/* ---- tensors ---- */

/* The failure in *err is about a tensor whose type and shape are unknown: refused, or noted, and the others
 * are shown. */
static bool zarr_lost(struct mg_save *s, const char *key, struct zf_err *err)
{
    char why[sizeof err->msg];

    memcpy(why, err->msg, sizeof why);
    return zf_forgive(s->b, err) &&
           zf_build_missing(s->b, key, strlen(key), &(struct zf_lost){.why = why, .unshaped = true},
                            err);
}

static bool zarr_array(struct mg_save *s, const char *key, struct zf_err *err)
{
    zf_auto(zarr_array) struct zf_zarr_array a = {0};

    if (!zf_zarr_array_read(s->st, key, s->lim, s->arena, &a, err))
        return zarr_lost(s, key, err);
    const struct mg_tensor *t = mg_save_tensor(
        s, key, strlen(key), (struct zf_type){a.z.dtype, a.z.ndim, a.z.shape}, a.z.grid, err);
    return t && zf_zarr_array_put(&a, s->lim, s->b, t->draft, err);
}

/* Is there a non-empty file, or a directory, with the name of a chunk ("0", "1.0")? */
static bool zarr_has_chunks(struct zf_store *st, const char *key)
{
    for (struct zf_entries l = zf_store_entries(st, key); l.e < l.end; l.e++) {
        const size_t digits = strspn(l.e->name, "0123456789.");

        if (l.e->name[0] != '.' && digits > 0 && !l.e->name[digits] &&
            (l.e->kind != ZF_ENTRY_FILE || l.e->id.size > 0))
            return true;
    }
    return false;
}

/* Chunks without a description of the array. */
static bool zarr_undescribed(struct mg_save *s, const char *key, const char *is, struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the file %s, but there are chunks next to it",
                  is);
    (void)zf_err_in(err, "%s/.zarray", key);
    return zarr_lost(s, key, err);
}

static bool zarr_key(struct mg_save *s, const char *key, struct zf_err *err)
{
    const struct zf_entry *e, *found = NULL;
    size_t n;

    if (!zf_store_list(s->st, key, &e, &n, err))
        return false;
    for (size_t i = 0; i < n && !found; i++)
        found = strcmp(e[i].name, ".zarray") == 0 ? &e[i] : NULL;
    const bool file = found && found->kind == ZF_ENTRY_FILE;
    if (file && found->id.size > 0)
        return zarr_array(s, key, err);
    if (zarr_has_chunks(s->st, key)) {
        return zarr_undescribed(s, key,
                                file    ? "is empty"
                                : found ? "is not a regular file"
                                        : "is missing",
                                err);
    }
    /* an empty .zarray alone is a lock file, as in directories called .sync */
    return file || zarr_objects(s, key, err);
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
        !(k->key = zf_arena_get(s->arena, n, sizeof *k->key, err)))
        return false;
    for (size_t i = 0; i < n; i++)
        if (e[i].kind == ZF_ENTRY_DIR && !zf_name_ends(e[i].name, ".sync"))
            k->key[k->n++] = e[i].name;
    return true;
}

static bool zarr_keys(struct mg_save *s, struct zf_err *err)
{
    struct zarr_keys k;

    if (!zarr_find_keys(s, &k, err))
        return false;
    const struct zf_ahead_work work = {.make = zarr_list_ahead,
                                       .ctx = &k}; /* the store keeps them */
    zf_auto(ahead) struct zf_ahead *ahead = zf_ahead_new(work, k.n, err);
    for (uint64_t i = 0; ahead && i < k.n; i++)
        if (!zf_ahead_take(ahead, err) || !zarr_key(s, k.key[i], err))
            return false;
    return ahead != NULL;
}

bool mg_zarr(struct mg_save *s, struct zf_err *err)
{
    return zarr_keys(s, err) && zf_store_rely(s->st, "", err) && mg_save_common_file(s, 0, err);
}
