/* SPDX-License-Identifier: Apache-2.0 */
#include "core_meta.h"

#include <inttypes.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/path.h>
#include <zf/base/table.h>
#include <zf/codec/json.h>

enum { CORE_FILES_MAX = 1000000, CORE_DIMS_MAX = 64 };

struct reading {
    const struct zf_limits *lim;
    struct zf_arena *a;
    struct core_meta *out;
    uint32_t cap; /* of out->file */
    struct zf_table files;
};

struct known_file {
    uint64_t hash;
    uint32_t number;
};

static bool core_refuse(struct zf_err *err, const char *what)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s", what);
}

/* ---- files ---- */

static bool core_file(struct reading *r, const char *name, uint32_t *out, struct zf_err *err)
{
    uint64_t hash = zf_hash(0, name, strlen(name));
    const struct known_file *known = zf_table_get(&r->files, hash);
    struct core_meta *m = r->out;

    if (known) {
        *out = known->number;
        return true;
    }
    if (!zf_relpath_ok(name) || strchr(name, '/')) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.80s\" is no name of a file beside metadata.json", name);
    }
    if (m->n_files == CORE_FILES_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more than %d files", CORE_FILES_MAX);
    }
    if (m->n_files == r->cap) {
        const char **more = zf_arena_get(r->a, 2ull * r->cap + 8, sizeof *more, err);

        if (!more) {
            return false;
        }
        if (m->n_files > 0) {
            memcpy(more, m->file, m->n_files * sizeof *more);
        }
        m->file = more;
        r->cap = 2 * r->cap + 8;
    }
    struct known_file *e = zf_table_put(&r->files, hash, sizeof *e, err);
    m->file[m->n_files] = e ? zf_arena_str(r->a, name, strlen(name), err) : NULL;
    if (!e || !m->file[m->n_files]) {
        return false;
    }
    *out = e->number = m->n_files++;
    return true;
}

/* ---- numbers ---- */

/* An array of exactly n sizes, in the arena. */
static const uint64_t *core_sizes(struct reading *r, const json_t *j, uint32_t n, const char *what,
                                  struct zf_err *err)
{
    uint64_t *out = json_is_array(j) && json_array_size(j) == n
                        ? zf_arena_get(r->a, n, sizeof *out, err)
                        : NULL;

    if (!json_is_array(j) || json_array_size(j) != n) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%s\" is no list of %" PRIu32 " sizes", what, n);
        return NULL;
    }
    for (uint32_t d = 0; out && d < n; d++) {
        if (!zf_json_u64(json_array_get(j, d), &out[d])) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%s\" holds something that is no size", what);
            return NULL;
        }
    }
    return out;
}

static bool core_read_range(const json_t *pair, const struct core_tensor *t, uint64_t elems,
                            uint64_t *range, struct core_shard *s, struct zf_err *err)
{
    uint64_t *at = &range[2 * s->n_ranges];

    if (json_array_size(pair) != 2 || !zf_json_u64(json_array_get(pair, 0), &at[0]) ||
        !zf_json_u64(json_array_get(pair, 1), &at[1])) {
        return core_refuse(err, "\"flattened_offsets\" are no pairs of numbers");
    }
    if (at[1] < at[0] || at[1] > elems) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "elements %" PRIu64 " … %" PRIu64 " are said to be in a file, of a tensor of "
                       "%" PRIu64,
                       at[0], at[1], elems);
    }
    (void)t;
    if (at[1] > at[0]) {
        s->n_ranges++;
        return zf_add(s->n, at[1] - at[0], &s->n) || core_refuse(err, "its ranges are too long");
    }
    return true;
}

/* [[0, 33], [40, 44]], or in older files a single [0, 33]. */
static bool core_read_ranges(struct reading *r, const json_t *list, const struct core_tensor *t,
                             uint64_t elems, struct core_shard *s, struct zf_err *err)
{
    bool single = json_array_size(list) == 2 && json_is_integer(json_array_get(list, 0));
    size_t n = single ? 1 : json_array_size(list);
    uint64_t *range = zf_arena_get(r->a, 2 * n, sizeof *range, err);

    if (!range) {
        return false;
    }
    s->range = range;
    for (size_t i = 0; i < n; i++) {
        if (!core_read_range(single ? list : json_array_get(list, i), t, elems, range, s, err)) {
            return false;
        }
    }
    return true;
}

static bool core_read_box(struct reading *r, const json_t *spec, const struct core_tensor *t,
                          struct core_shard *s, struct zf_err *err)
{
    s->size = core_sizes(r, json_object_get(spec, "local_shape"), t->ndim, "local_shape", err);
    s->start =
        s->size ? core_sizes(r, json_object_get(spec, "global_offset"), t->ndim, "global_offset",
                             err)
                : NULL;
    for (uint32_t d = 0; s->start && d < t->ndim; d++) {
        if (s->size[d] > 0 && !zf_within(s->start[d], s->size[d], t->shape[d])) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "a box of %" PRIu64 " from %" PRIu64 " on in dimension %" PRIu32
                           " leaves the tensor, which has %" PRIu64,
                           s->size[d], s->start[d], d, t->shape[d]);
        }
    }
    return s->start &&
           (zf_elems(t->ndim, s->size, &s->n) || core_refuse(err, "its box is too large"));
}

static bool core_is_null(const json_t *j)
{
    return !j || json_is_null(j);
}

static bool core_read_shard(struct reading *r, const json_t *spec, const struct core_tensor *t,
                            uint64_t elems, struct core_shard *s, struct zf_err *err)
{
    const json_t *flat = json_is_object(spec) ? json_object_get(spec, "flattened_offsets") : spec;
    bool box = json_is_object(spec) && (!core_is_null(json_object_get(spec, "local_shape")) ||
                                        !core_is_null(json_object_get(spec, "global_offset")));

    if (box && !core_is_null(flat)) {
        return core_refuse(err, "a shard has both \"flattened_offsets\" and a box");
    }
    if (box) {
        return core_read_box(r, spec, t, s, err);
    }
    return json_is_array(flat)
               ? core_read_ranges(r, flat, t, elems, s, err)
               : core_refuse(err, "a shard has neither \"flattened_offsets\" nor a box");
}

/* ---- tensors ---- */

static bool core_read_type(struct reading *r, const json_t *j, struct core_tensor *t,
                           uint64_t *elems, struct zf_err *err)
{
    const json_t *shape = json_object_get(j, "shape");
    const char *dtype = json_string_value(json_object_get(j, "dtype"));

    if (!dtype || !zf_dtype_by_safetensors(dtype, &t->dtype)) {
        return zf_fail(err, dtype ? ZF_E_UNSUPPORTED : ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"dtype\" is \"%.20s\", which is no type of safetensors",
                       dtype ? dtype : "");
    }
    if (!json_is_array(shape) || json_array_size(shape) > CORE_DIMS_MAX) {
        return core_refuse(err, "\"shape\" is no list of sizes");
    }
    t->ndim = (uint32_t)json_array_size(shape);
    t->shape = core_sizes(r, shape, t->ndim, "shape", err);
    return t->shape && (zf_elems(t->ndim, t->shape, elems) ||
                        core_refuse(err, "\"shape\" multiplies beyond 64 bits"));
}

static bool core_read_tensor(struct reading *r, json_t *j, struct core_tensor *t,
                             struct zf_err *err)
{
    json_t *files = json_object_get(j, "shard_spec_per_file"), *spec;
    const char *name;
    uint64_t elems = 0;

    files = files ? files : json_object_get(j, "flattened_offsets_per_file");
    if (!json_is_object(files)) {
        return core_refuse(err, "there is no \"shard_spec_per_file\"");
    }
    struct core_shard *shard = zf_arena_get(r->a, json_object_size(files), sizeof *shard, err);
    if (!shard || !core_read_type(r, j, t, &elems, err)) {
        return false;
    }
    t->shard = shard;
    json_object_foreach(files, name, spec) {
        struct core_shard *s = &shard[t->n];

        *s = (struct core_shard){0};
        if (!core_file(r, name, &s->file, err) || !core_read_shard(r, spec, t, elems, s, err)) {
            return false;
        }
        t->n += s->n > 0;
    }
    return true;
}

static bool core_read(struct reading *r, json_t *root, struct zf_err *err)
{
    json_t *tensors = json_object_get(root, "tensors"), *j;
    const char *key;

    if (!json_is_object(tensors)) {
        return core_refuse(err, "there is no object \"tensors\"");
    }
    if (json_object_size(tensors) > r->lim->tensors) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "%zu tensors are more than tensors=%" PRIu64,
                       json_object_size(tensors), r->lim->tensors);
    }
    r->out->tensor =
        zf_arena_get(r->a, json_object_size(tensors), sizeof *r->out->tensor, err);
    if (!r->out->tensor) {
        return false;
    }
    json_object_foreach(tensors, key, j) {
        struct core_tensor *t = &r->out->tensor[r->out->n++];

        t->key = zf_arena_str(r->a, key, strlen(key), err);
        if (!t->key) {
            return false;
        }
        if (!core_read_tensor(r, j, t, err)) {
            return zf_err_in(err, "!%.100s", key);
        }
    }
    return true;
}

bool core_meta_read(const char *text, uint64_t n, const struct zf_limits *lim, struct zf_arena *a,
                    struct core_meta *out, struct zf_err *err)
{
    struct reading r = {.lim = lim, .a = a, .out = out};
    zf_auto(json) json_t *root = zf_json_load(text, n, lim, err);

    *out = (struct core_meta){0};
    bool ok = root && core_read(&r, root, err);
    zf_table_fini(&r.files);
    return ok;
}
