/* SPDX-License-Identifier: Apache-2.0 */
#include "core_meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/path.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/codec/jsonin.h>

enum { CORE_FILES_MAX = 1000000, CORE_DIMS_MAX = 64 };

/* A list of sizes, or what is in its place. */
struct core_list {
    bool given;     /* not null */
    bool list, odd; /* odd: something in it is no size */
    uint64_t n;
    const uint64_t *at; /* [n], in the arena; of a list that is not odd */
};

/* A file's part of a tensor as it is read, in any order, while the tensor's shape may be unknown. */
struct core_said {
    uint32_t file;
    struct core_list flat; /* pairs one behind the other */
    struct core_list size, start;
};

struct reading {
    const struct zf_limits *lim;
    struct zf_arena *a;
    struct core_meta *out;
    zf_vec(const char *) file; /* of out->file */
    struct known_file *files;
    struct zf_jsonin *in;
    zf_vec(uint64_t) number;       /* of the list that is being read */
    zf_vec(struct core_said) said; /* of the tensor that is being read */
    zf_vec(struct core_tensor) tensor;
};

struct known_file {
    UT_hash_handle hh;
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
    const struct known_file *known = zf_table_find_id(r->files, hash);

    if (known) {
        *out = known->number;
        return true;
    }
    if (!zf_relpath_ok(name) || strchr(name, '/')) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.80s\" is no name of a file beside metadata.json", name);
    }
    if (r->file.n == CORE_FILES_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more than %d files", CORE_FILES_MAX);
    }
    struct known_file *e = zf_table_make_id(r->files, hash, err);
    const char **file = e ? zf_vec_push(&r->file, err) : NULL;
    if (!file) {
        return false;
    }
    *file = zf_arena_str(r->a, name, strlen(name), err);
    *out = e->number = (uint32_t)(r->file.n - 1);
    return *file != NULL;
}

/* ---- what is said ---- */

static bool core_push(struct reading *r, uint64_t v, struct zf_err *err)
{
    if (!zf_vec_room(&r->number, 1, err)) {
        return false;
    }
    r->number.at[r->number.n++] = v;
    return true;
}

/* The numbers that were read are those of the list. */
static bool core_keep(struct reading *r, struct core_list *out, struct zf_err *err)
{
    if (!out->list || out->odd) {
        return true;
    }
    out->n = r->number.n;
    out->at = zf_arena_copy(r->a, r->number.at, out->n, sizeof *r->number.at, err);
    return out->at != NULL;
}

static bool core_read_sizes(struct reading *r, struct core_list *out, struct zf_err *err)
{
    enum zf_json_kind kind = zf_jsonin_value(r->in);
    uint32_t list = kind == ZF_JSON_ARRAY ? zf_jsonin_level(r->in) : 0;
    uint64_t v = 0;

    *out = (struct core_list){.given = kind != ZF_JSON_NULL, .list = list > 0};
    r->number.n = 0;
    while (zf_jsonin_next(r->in, list)) {
        out->odd = !zf_jsonin_u64(r->in, &v) || out->odd;
        if (!core_push(r, v, err)) {
            return false;
        }
    }
    return core_keep(r, out, err);
}

/* [[0, 33], [40, 44]], or in older files a single [0, 33]; its bracket was read. */
static bool core_read_ranges(struct reading *r, struct core_list *out, struct zf_err *err)
{
    uint32_t list = zf_jsonin_level(r->in), pair;
    uint64_t n_plain = 0, n_pairs = 0, v = 0;

    *out = (struct core_list){.given = true, .list = true};
    r->number.n = 0;
    while (zf_jsonin_next(r->in, list)) {
        enum zf_json_kind kind = zf_jsonin_value(r->in);

        pair = kind == ZF_JSON_ARRAY ? zf_jsonin_level(r->in) : 0;
        if (!pair) {
            n_plain++;
            out->odd = out->odd || kind != ZF_JSON_INTEGER || zf_jsonin_integer(r->in) < 0;
            if (!core_push(r, (uint64_t)zf_jsonin_integer(r->in), err)) {
                return false;
            }
            continue;
        }
        n_pairs++;
        while (zf_jsonin_next(r->in, pair)) {
            out->odd = !zf_jsonin_u64(r->in, &v) || out->odd;
            if (!core_push(r, v, err)) {
                return false;
            }
        }
        out->odd = out->odd || r->number.n != 2 * n_pairs;
    }
    out->odd = out->odd || (n_plain > 0 && (n_plain != 2 || n_pairs > 0));
    return core_keep(r, out, err);
}

static bool core_read_flat(struct reading *r, enum zf_json_kind kind, struct core_list *out,
                           struct zf_err *err)
{
    *out = (struct core_list){.given = kind != ZF_JSON_NULL};
    return kind != ZF_JSON_ARRAY || core_read_ranges(r, out, err);
}

/* The value of a file's name. */
static bool core_read_part(struct reading *r, struct core_said *said, struct zf_err *err)
{
    enum zf_json_kind kind = zf_jsonin_value(r->in);
    uint32_t object = kind == ZF_JSON_OBJECT ? zf_jsonin_level(r->in) : 0;
    bool ok = object > 0 || core_read_flat(r, kind, &said->flat, err);

    while (ok && zf_jsonin_next(r->in, object)) {
        if (zf_jsonin_is(r->in, "flattened_offsets")) {
            ok = core_read_flat(r, zf_jsonin_value(r->in), &said->flat, err);
        } else if (zf_jsonin_is(r->in, "local_shape")) {
            ok = core_read_sizes(r, &said->size, err);
        } else if (zf_jsonin_is(r->in, "global_offset")) {
            ok = core_read_sizes(r, &said->start, err);
        }
    }
    return ok;
}

/* {file: part}; false in *object_out if it is something else. */
static bool core_read_parts(struct reading *r, bool *object_out, struct zf_err *err)
{
    uint32_t object = zf_jsonin_enter(r->in, ZF_JSON_OBJECT);

    *object_out = object > 0;
    r->said.n = 0;
    while (zf_jsonin_next(r->in, object)) {
        struct core_said *said = zf_vec_push(&r->said, err);

        if (!said || !core_file(r, zf_jsonin_text(r->in, NULL), &said->file, err) ||
            !core_read_part(r, said, err)) {
            return false;
        }
    }
    return true;
}

/* ---- whether it can be ---- */

static bool core_judge_sizes(const struct core_list *l, uint32_t n, const char *what,
                             struct zf_err *err)
{
    if (l->odd) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%s\" holds something that is no size",
                       what);
    }
    return (l->list && l->n == n) || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                                             "\"%s\" is no list of %" PRIu32 " sizes", what, n);
}

static bool core_judge_box(const struct core_said *said, const struct core_tensor *t,
                           struct core_shard *s, struct zf_err *err)
{
    if (!core_judge_sizes(&said->size, t->ndim, "local_shape", err) ||
        !core_judge_sizes(&said->start, t->ndim, "global_offset", err)) {
        return false;
    }
    s->size = said->size.at;
    s->start = said->start.at;
    for (uint32_t d = 0; d < t->ndim; d++) {
        if (s->size[d] > 0 && !zf_within(s->start[d], s->size[d], t->shape[d])) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "a box of %" PRIu64 " from %" PRIu64 " on in dimension %" PRIu32
                           " leaves the tensor, which has %" PRIu64,
                           s->size[d], s->start[d], d, t->shape[d]);
        }
    }
    return zf_elems(t->ndim, s->size, &s->n) || core_refuse(err, "its box is too large");
}

/* Empty ranges count for nothing. */
static bool core_judge_ranges(const struct core_list *flat, uint64_t elems, struct core_shard *s,
                              struct zf_err *err)
{
    if (flat->odd) {
        return core_refuse(err, "\"flattened_offsets\" are no pairs of numbers");
    }
    s->range = flat->at;
    for (uint64_t i = 0; i < flat->n; i += 2) {
        const uint64_t *at = &flat->at[i];

        if (at[1] < at[0] || at[1] > elems) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "elements %" PRIu64 " … %" PRIu64
                           " are said to be in a file, of a tensor of %" PRIu64,
                           at[0], at[1], elems);
        }
        if (!zf_add(s->n, at[1] - at[0], &s->n)) {
            return core_refuse(err, "its ranges are too long");
        }
    }
    s->n_ranges = flat->n / 2;
    return true;
}

static bool core_judge_part(const struct core_said *said, const struct core_tensor *t,
                            uint64_t elems, struct core_shard *s, struct zf_err *err)
{
    bool box = said->size.given || said->start.given;

    *s = (struct core_shard){.file = said->file};
    if (box && said->flat.given) {
        return core_refuse(err, "a shard has both \"flattened_offsets\" and a box");
    }
    if (box) {
        return core_judge_box(said, t, s, err);
    }
    return said->flat.list
               ? core_judge_ranges(&said->flat, elems, s, err)
               : core_refuse(err, "a shard has neither \"flattened_offsets\" nor a box");
}

/* ---- tensors ---- */

/* The values of a tensor's own keys. */
struct core_type {
    char dtype[21]; /* cut, for messages */
    bool known;
    struct core_list shape;
};

static bool core_judge_type(const struct core_type *type, struct core_tensor *t, uint64_t *elems,
                            struct zf_err *err)
{
    if (!type->known) {
        return zf_fail(err, type->dtype[0] ? ZF_E_UNSUPPORTED : ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"dtype\" is \"%s\", which is no type of safetensors", type->dtype);
    }
    if (!type->shape.list || type->shape.n > CORE_DIMS_MAX) {
        return core_refuse(err, "\"shape\" is no list of sizes");
    }
    t->ndim = (uint32_t)type->shape.n;
    t->shape = type->shape.at;
    return core_judge_sizes(&type->shape, t->ndim, "shape", err) &&
           (zf_elems(t->ndim, t->shape, elems) ||
            core_refuse(err, "\"shape\" multiplies beyond 64 bits"));
}

static void core_read_dtype(struct reading *r, struct core_type *type, struct core_tensor *t)
{
    if (zf_jsonin_string(r->in)) {
        const char *text = zf_jsonin_text(r->in, NULL);

        type->known = zf_dtype_by_safetensors(text, &t->dtype);
        (void)snprintf(type->dtype, sizeof type->dtype, "%s", text);
    }
}

static bool core_read_tensor(struct reading *r, struct core_tensor *t, struct zf_err *err)
{
    uint32_t object = zf_jsonin_enter(r->in, ZF_JSON_OBJECT);
    struct core_type type = {.known = false};
    bool parts = false, spec = false, ok = true;
    struct core_shard *shard;
    uint64_t elems = 0;

    while (ok && zf_jsonin_next(r->in, object)) {
        if (zf_jsonin_is(r->in, "dtype")) {
            core_read_dtype(r, &type, t);
        } else if (zf_jsonin_is(r->in, "shape")) {
            ok = core_read_sizes(r, &type.shape, err);
        } else if (zf_jsonin_is(r->in, "shard_spec_per_file")) {
            spec = true;
            ok = core_read_parts(r, &parts, err);
        } else if (!spec && zf_jsonin_is(r->in, "flattened_offsets_per_file")) {
            ok = core_read_parts(r, &parts, err);
        }
    }
    if (!ok || !(parts || core_refuse(err, "there is no \"shard_spec_per_file\"")) ||
        !core_judge_type(&type, t, &elems, err)) {
        return false;
    }
    t->shard = shard = zf_arena_get(r->a, r->said.n, sizeof *shard, err);
    for (size_t i = 0; shard && i < r->said.n; i++) {
        if (!core_judge_part(&r->said.at[i], t, elems, &shard[t->n], err)) {
            return false;
        }
        t->n += shard[t->n].n > 0;
    }
    return shard != NULL;
}

/* The tensor whose name was read. */
static bool core_read_entry(struct reading *r, struct zf_err *err)
{
    struct core_tensor t = {.n = 0};
    size_t n;
    const char *key = zf_jsonin_text(r->in, &n);

    if (r->tensor.n >= r->lim->tensors) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more tensors than tensors=%" PRIu64,
                       r->lim->tensors);
    }
    t.key = zf_arena_str(r->a, key, n, err);
    if (!t.key) {
        return false;
    }
    if (!core_read_tensor(r, &t, err)) {
        return zf_err_in(err, "!%.100s", t.key);
    }
    if (!zf_vec_room(&r->tensor, 1, err)) {
        return false;
    }
    r->tensor.at[r->tensor.n++] = t;
    return true;
}

static bool core_read(struct reading *r, struct zf_err *err)
{
    uint32_t top = zf_jsonin_enter(r->in, ZF_JSON_OBJECT), tensors = 0;

    while (zf_jsonin_next(r->in, top)) {
        if (zf_jsonin_is(r->in, "tensors")) {
            tensors = zf_jsonin_enter(r->in, ZF_JSON_OBJECT);
            while (zf_jsonin_next(r->in, tensors)) {
                if (!core_read_entry(r, err)) {
                    return false;
                }
            }
        }
    }
    return tensors > 0 || core_refuse(err, "there is no object \"tensors\"");
}

/* Hands the tensors over, once the document is known to be sound. */
static bool core_end(struct reading *r, bool ok, struct zf_err *err)
{
    struct core_meta *m = r->out;

    if (!zf_jsonin_end(r->in, err) || !ok) {
        return false;
    }
    m->n = r->tensor.n;
    m->tensor = zf_arena_copy(r->a, r->tensor.at, m->n, sizeof *m->tensor, err);
    m->n_files = (uint32_t)r->file.n;
    m->file = zf_arena_copy(r->a, r->file.at, r->file.n, sizeof *m->file, err);
    return m->tensor && m->file;
}

bool core_meta_read(struct zf_source *src, const struct zf_limits *lim, struct zf_arena *a,
                    struct core_meta *out, struct zf_err *err)
{
    struct reading r = {.lim = lim, .a = a, .out = out};

    *out = (struct core_meta){0};
    r.in = zf_jsonin_new(src, 0, src->size, lim, err);
    bool ok = r.in && core_end(&r, core_read(&r, err), err);
    zf_jsonin_free(r.in);
    zf_vec_fini(&r.file);
    zf_vec_fini(&r.number);
    zf_vec_fini(&r.said);
    zf_vec_fini(&r.tensor);
    zf_table_free(r.files);
    return ok;
}
