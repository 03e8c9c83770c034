/* SPDX-License-Identifier: Apache-2.0 */
/* ShardedObjects: "<key>/shard_<offset>_<shape>.pt", both numbers of a grid, joined by dots.  Up to 0.7
 * the suffix replaced the last number of the shape, so that it has one less than the offset has
 * ("shard_0.1_1.pt" of shape 1.2); then it is one more than the largest offset there.  An object has
 * the same key as in a DCP save: "<key>/shard_0.1_1.2".
 * Source: megatron/core/dist_checkpointing/strategies/common.py (0.4 … 0.9): with_suffix('.pt'), and its
 * way round it when loading. */
#include "zarr_objects.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/out.h>
#include <zf/base/path.h>
#include <zf/base/table.h>

#define PREFIX "shard_"
#define SUFFIX ".pt"

/* A file's name in pieces, which point into it. */
struct object_name {
    const char *offset, *shape, *last; /* last: the last number of the offset */
    size_t offset_len, shape_len;
    bool cut; /* the shape lacks its last number */
};

/* Numbers joined by dots; *n_out = how many, *last_out where the last one begins. */
static size_t object_numbers(const char *p, unsigned *n_out, const char **last_out)
{
    const char *at = p;

    *n_out = 0;
    for (;;) {
        size_t digits = strspn(at, "0123456789");

        if (digits == 0 || digits > 18 || (digits > 1 && *at == '0')) {
            return 0;
        }
        *last_out = at;
        at += digits;
        (*n_out)++;
        if (*at != '.' || at[1] < '0' || at[1] > '9') {
            return (size_t)(at - p);
        }
        at++;
    }
}

static bool object_parse(const char *name, struct object_name *out)
{
    unsigned n_offset, n_shape;
    const char *ignored;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) {
        return false;
    }
    out->offset = name + strlen(PREFIX);
    out->offset_len = object_numbers(out->offset, &n_offset, &out->last);
    if (out->offset_len == 0 || out->offset[out->offset_len] != '_') {
        return false;
    }
    out->shape = out->offset + out->offset_len + 1;
    out->shape_len = object_numbers(out->shape, &n_shape, &ignored);
    out->cut = n_shape + 1 == n_offset;
    return out->shape_len > 0 && (out->cut || n_shape == n_offset) &&
           strcmp(out->shape + out->shape_len, SUFFIX) == 0;
}

/* One more than the largest last number of an offset among those files. */
static uint64_t object_last_extent(const struct zf_entry *e, size_t n)
{
    struct object_name o;
    uint64_t most = 0;

    for (size_t i = 0; i < n; i++) {
        if (object_parse(e[i].name, &o)) {
            uint64_t at = strtoull(o.last, NULL, 10);

            most = at >= most ? at + 1 : most;
        }
    }
    return most;
}

static bool object_add(struct mg_save *s, const char *key, const char *file,
                       const struct object_name *o, uint64_t extent, struct zf_err *err)
{
    zf_auto(out) struct zf_out name = {0};
    zf_auto(mem) char *path = zf_relpath_join(key, file, err);
    zf_auto(source) struct zf_source *src = path ? zf_store_open_later(s->st, path, err) : NULL;

    if (!src) {
        return false;
    }
    zf_out_str(&name, key);
    zf_out_str(&name, "/" PREFIX);
    zf_out_add(&name, o->offset, o->offset_len + 1 + o->shape_len);
    if (o->cut) {
        zf_out_str(&name, ".");
        zf_out_dec(&name, extent);
    }
    if (name.bad) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    return mg_save_object(s, name.p, name.n, src, err) != NULL;
}

struct object_seen {
    UT_hash_handle hh; /* key: the offset */
};

/* Two files of one offset: two spellings, of which neither is more to be believed. */
static bool object_is_new(struct object_seen **seen, const char *key, const char *file,
                          const struct object_name *o, struct zf_err *err)
{
    if (zf_table_find(*seen, o->offset, o->offset_len)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "another file holds the object at %.*s as well", (int)o->offset_len,
                      o->offset);
        return zf_err_in(err, "%s/%s", key, file);
    }
    return zf_table_make(*seen, o->offset, o->offset_len, err);
}

bool mg_zarr_objects(struct mg_save *s, const char *key, struct zf_err *err)
{
    const struct zf_entry *e;
    struct object_name o;
    size_t n, found = 0;
    zf_auto(uthash) struct object_seen *seen = NULL;

    if (!zf_store_list(s->st, key, &e, &n, err)) {
        return false;
    }
    const uint64_t extent = object_last_extent(e, n);
    for (size_t i = 0; i < n; i++) {
        if (!object_parse(e[i].name, &o)) {
            continue;
        }
        found++;
        if (!object_is_new(&seen, key, e[i].name, &o, err) ||
            !object_add(s, key, e[i].name, &o, extent, err)) {
            return false;
        }
    }
    return found == 0 || zf_store_rely(s->st, key, err);
}
