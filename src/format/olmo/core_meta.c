/* SPDX-License-Identifier: Apache-2.0 */
#include "core_meta.h"

#include <inttypes.h>
#include <string.h>

#include <zf/assemble/take.h>
#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/path.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/codec/pvjson.h>

enum { CORE_FILES_MAX = 1000000 };

struct known_file {
    UT_hash_handle hh;
    uint32_t number;
};

struct reading {
    const struct zf_limits *lim;
    struct zf_arena *a;
    zf_vec(const char *) file; /* becomes core_meta.file */
    struct known_file *files;  /* uthash: numbers of the files */
    zf_vec(struct core_tensor) tensor;
};

/* ---- a file's part of a tensor ---- */

static bool core_add_file(struct reading *r, const char *name, uint32_t *out, struct zf_err *err)
{
    struct known_file *known = zf_table_find_str(r->files, name);

    if (known) {
        *out = known->number;
        return true;
    }
    if (r->file.n == CORE_FILES_MAX)
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more than %d files", CORE_FILES_MAX);
    known = zf_table_make_str(r->files, name, err);
    const char **file = known ? zf_vec_push(&r->file, err) : NULL;
    if (!file)
        return false;
    *file = zf_arena_str(r->a, name, strlen(name), err);
    *out = known->number = (uint32_t)(r->file.n - 1);
    return *file != NULL;
}

static uint32_t core_take_file(struct reading *r, const struct zf_take *name)
{
    const char *text = zf_take_text(name, NULL);
    struct zf_err err;
    uint32_t number = 0;

    if (zf_take_must(name, zf_relpath_ok(text) && !strchr(text, '/'),
                     "\"%.80s\" is not the name of a file next to metadata.json", text) &&
        !core_add_file(r, text, &number, &err))
        (void)zf_take_fail(name, &err);
    return number;
}

static const uint64_t *core_take_extents(const struct zf_take *x, uint32_t want)
{
    uint32_t n;
    const uint64_t *out = zf_take_sizes(x, &n);

    return x->t->failed || zf_take_must(x, n == want, "it has %" PRIu32 " sizes, expected %" PRIu32,
                                        n, want)
               ? out
               : NULL;
}

static void core_take_box(const struct zf_take *part, const struct core_tensor *t,
                          struct core_shard *s)
{
    struct zf_take size = zf_take_key(part, "local_shape"),
                   start = zf_take_key(part, "global_offset");

    s->size = core_take_extents(&size, t->ndim);
    s->start = core_take_extents(&start, t->ndim);
    for (uint32_t d = 0; d < t->ndim && !part->t->failed; d++) {
        (void)zf_take_must(part, s->size[d] == 0 || zf_within(s->start[d], s->size[d], t->shape[d]),
                           "a box of %" PRIu64 " from %" PRIu64
                           " on reaches beyond dimension %" PRIu32
                           " of the tensor, which has %" PRIu64,
                           s->size[d], s->start[d], d, t->shape[d]);
    }
    (void)zf_take_must(part, part->t->failed || zf_elems(t->ndim, s->size, &s->n),
                       "its box is too large");
}

/* Reads [begin, end), a range of the flattened tensor. */
static void core_take_range(const struct zf_take *pair, uint64_t elems, struct core_shard *s,
                            uint64_t *out)
{
    struct zf_take begin = zf_take_item(pair, 0), end = zf_take_item(pair, 1);

    if (!zf_take_list_of(pair, 2))
        return;
    out[0] = zf_take_u64(&begin);
    out[1] = zf_take_u64(&end);
    (void)(zf_take_must(pair, out[0] <= out[1] && out[1] <= elems,
                        "a file should hold elements %" PRIu64 " … %" PRIu64
                        " of a tensor, but the tensor has %" PRIu64,
                        out[0], out[1], elems) &&
           zf_take_must(pair, zf_add(s->n, out[1] - out[0], &s->n), "its ranges are too long"));
}

/* Reads [[0, 33], [40, 44]], or in older files a single [0, 33]. */
static void core_take_ranges(const struct zf_take *flat, uint64_t elems, struct core_shard *s)
{
    uint64_t n = zf_take_list(flat);
    bool one = n > 0 && !zf_pv_is_seq(zf_pv_item(flat->v, 0));
    uint64_t *range = zf_take_room(flat->t, one ? 1 : n, 2 * sizeof *range);

    s->range = range;
    s->n_ranges = one ? 1 : n;
    if (one)
        core_take_range(flat, elems, s, range);
    for (uint64_t i = 0; i < n && !one && !flat->t->failed; i++) {
        struct zf_take pair = zf_take_item(flat, i);

        core_take_range(&pair, elems, s, &range[2 * i]);
    }
}

/* Reads {"flattened_offsets": …} or a box; older files have just the offsets. */
static void core_take_part(const struct zf_take *part, const struct core_tensor *t, uint64_t elems,
                           struct core_shard *s)
{
    struct zf_take flat = zf_take_key(part, "flattened_offsets"),
                   size = zf_take_key(part, "local_shape"),
                   start = zf_take_key(part, "global_offset");
    bool box = zf_take_given(&size) || zf_take_given(&start);

    flat = zf_pv_is_map(part->v) ? flat : *part;
    if (!zf_take_must(part, box || zf_take_given(&flat),
                      "a shard has neither \"flattened_offsets\" nor a box") ||
        !zf_take_must(part, !box || !zf_take_given(&flat),
                      "a shard has both \"flattened_offsets\" and a box"))
        return;
    if (box)
        core_take_box(part, t, s);
    else
        core_take_ranges(&flat, elems, s);
}

/* ---- a tensor ---- */

static void core_take_tensor(struct reading *r, const struct zf_take *x, struct core_tensor *t)
{
    struct zf_take dtype = zf_take_key(x, "dtype"), shape = zf_take_key(x, "shape"),
                   parts = zf_take_key(x, "shard_spec_per_file"),
                   old = zf_take_key(x, "flattened_offsets_per_file");
    const char *type = zf_take_text(&dtype, NULL);
    struct core_shard *shard;
    uint64_t elems = 0;

    (void)zf_take_can(&dtype, zf_dtype_by_safetensors(type, &t->dtype),
                      "it is \"%.20s\", which is not a safetensors dtype", type);
    t->shape = zf_take_sizes(&shape, &t->ndim);
    (void)zf_take_must(&shape, zf_elems(t->ndim, t->shape, &elems),
                       "the product of its sizes exceeds 64 bits");
    parts = parts.v ? parts : old;
    uint64_t n = zf_take_map(&parts);
    t->shard = shard = zf_take_room(x->t, n, sizeof *shard);
    for (uint64_t i = 0; i < n && !x->t->failed; i++) {
        struct zf_take name = zf_take_name(&parts, i), part = zf_take_item(&parts, i);

        shard[t->n] = (struct core_shard){.file = core_take_file(r, &name)};
        core_take_part(&part, t, elems, &shard[t->n]);
        t->n += shard[t->n].n > 0;
    }
}

/* Reads the tensor after its name. */
static bool core_read_entry(struct reading *r, struct zf_jsonin *in, struct zf_err *err)
{
    struct zf_taker taker = {.arena = r->a};
    struct core_tensor t = {.n = 0};
    size_t n;
    const char *key = zf_jsonin_text(in, &n);

    if (r->tensor.n >= r->lim->tensors) {
        return zf_fail_limit(err, ZF_LIMIT_tensors, ZF_OFF_NONE,
                             "more tensors than the limit tensors allows, %" PRIu64,
                             r->lim->tensors);
    }
    t.key = zf_arena_str(r->a, key, n, err);
    zf_auto(arena) struct zf_arena *own = zf_arena_new(r->lim->model_memory, err);
    const struct zf_pv *v = t.key && own ? zf_pv_of_jsonin(in, own, r->lim, err) : NULL;
    if (!v)
        return false;
    struct zf_take root = zf_take_root(&taker, v);
    core_take_tensor(r, &root, &t);
    if (!zf_take_ok(&taker, err))
        return zf_err_in(err, "!%.100s", t.key);
    struct core_tensor *to = zf_vec_push(&r->tensor, err);
    if (to)
        *to = t;
    return to != NULL;
}

static bool core_read(struct reading *r, struct zf_jsonin *in, struct zf_err *err)
{
    uint32_t top = zf_jsonin_enter(in, ZF_JSON_OBJECT), tensors = 0;

    while (zf_jsonin_next(in, top)) {
        if (zf_jsonin_is(in, "tensors")) {
            tensors = zf_jsonin_enter(in, ZF_JSON_OBJECT);
            while (zf_jsonin_next(in, tensors))
                if (!core_read_entry(r, in, err))
                    return false;
        }
    }
    return tensors > 0 || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "there is no object \"tensors\"");
}

bool core_meta_read(struct zf_source *src, const struct zf_limits *lim, struct zf_arena *a,
                    struct core_meta *out, struct zf_err *err)
{
    struct reading r = {.lim = lim, .a = a};
    zf_auto(jsonin) struct zf_jsonin *in = zf_jsonin_new(src, 0, src->size, lim, err);
    bool ok = in && core_read(&r, in, err);

    ok = in && zf_jsonin_end(in, err) && ok; /* if the document is malformed, that is the error */
    *out = (struct core_meta){.n = r.tensor.n, .n_files = (uint32_t)r.file.n};
    if (ok) {
        out->tensor = zf_arena_copy(a, r.tensor.at, out->n, sizeof *out->tensor, err);
        out->file = zf_arena_copy(a, r.file.at, r.file.n, sizeof *out->file, err);
    }
    zf_vec_fini(&r.file);
    zf_vec_fini(&r.tensor);
    zf_table_free(r.files);
    return ok && out->tensor && out->file;
}
