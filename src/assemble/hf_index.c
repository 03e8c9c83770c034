/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/hf_index.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/base/hash.h>
#include <zf/base/name.h>
#include <zf/base/path.h>
#include <zf/codec/jsonin.h>

void zf_st_index_fini(struct zf_st_index *x)
{
    HASH_CLEAR(hh, x->entry); /* what is in it is the arena's */
    zf_vec_fini(&x->file);
    zf_arena_free(x->arena);
    free(x->path);
    *x = (struct zf_st_index){.path = NULL};
}

struct hf_index_file {
    UT_hash_handle hh; /* key: the name */
    uint32_t number;   /* + 1; 0: new */
};

/* The reading of an index. */
struct hf_index_reading {
    struct zf_jsonin *in;
    struct zf_st_index *out;
    struct hf_index_file *by_name; /* uthash */
    char *dir;                     /* its directory, "" = the root */
};

/* The number of the file of that name; adds a new name. */
static bool hf_index_number(struct hf_index_reading *r, const char *name, size_t n, uint32_t *out,
                            struct zf_err *err)
{
    struct zf_st_index *x = r->out;
    struct hf_index_file *f = zf_table_make(r->by_name, name, n, err);

    if (f && !f->number) {
        const char **file = zf_vec_push(&x->file, err);

        f->number = (uint32_t)x->file.n;
        f = file && (*file = zf_arena_str(x->arena, name, n, err)) ? f : NULL;
    }
    *out = f ? f->number - 1 : 0;
    return f != NULL;
}

/* The value of an entry as the path of a file of the store, malloc'ed.  NULL: not a valid path. */
static char *hf_index_value(struct hf_index_reading *r, const char *tensor, struct zf_err *err)
{
    bool is_text = zf_jsonin_string(r->in);
    const char *text = zf_jsonin_text(r->in, NULL);

    if (!is_text || !zf_relpath_ok(text)) {
        return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "the file of tensor \"%.80s\" is \"%.80s\", expected the name of a "
                               "file next to the index",
                               tensor, is_text ? text : "(not a string)"));
    }
    return zf_relpath_join(r->dir, text, err);
}

/* The same for a number, from which torch.distributed.checkpoint's writer makes its files' names.
 * Source: torch/distributed/checkpoint/_hf_utils.py, _gen_file_name (2.8 … 2.15). */
static char *hf_index_value_number(struct hf_index_reading *r, const char *tensor,
                                   struct zf_err *err)
{
    char name[64];
    uint64_t n;

    if (!zf_jsonin_u64(r->in, &n)) {
        return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "expected the number of a file for tensor \"%.80s\"", tensor));
    }
    (void)snprintf(name, sizeof name, "shard-*-model-%05" PRIu64 "-of-*.safetensors", n);
    return zf_relpath_join("", name, err);
}

typedef char *hf_index_value_fn(struct hf_index_reading *r, const char *tensor, struct zf_err *err);

/* Reads the value of a tensor in the map, after its name. */
static bool hf_index_entry(struct hf_index_reading *r, hf_index_value_fn *value, struct zf_err *err)
{
    struct zf_st_index *x = r->out;
    size_t n;
    const char *text = zf_jsonin_text(r->in, &n);
    struct zf_st_index_entry *e = zf_arena_get(x->arena, 1, sizeof *e, err);

    e = e && (e->tensor = zf_arena_str(x->arena, text, n, err)) ? e : NULL;
    if (!e || !zf_table_add(x->entry, e->tensor, n, e, err))
        return false;
    zf_auto(mem) char *file = value(r, e->tensor, err);
    return file && hf_index_number(r, file, strlen(file), &e->file, err);
}

/* "metadata": {"param_groups": file}, which only an optimizer's index has. */
static bool hf_index_metadata(struct hf_index_reading *r, struct zf_err *err)
{
    uint32_t level = zf_jsonin_enter(r->in, ZF_JSON_OBJECT);

    while (zf_jsonin_next(r->in, level)) {
        if (!zf_jsonin_is(r->in, "param_groups"))
            continue;
        zf_auto(mem) char *file = hf_index_value(r, "param_groups", err);
        r->out->groups = file ? zf_arena_str(r->out->arena, file, strlen(file), err) : NULL;
        if (!r->out->groups)
            return false;
    }
    return true;
}

static bool hf_index_read(struct hf_index_reading *r, struct zf_err *err)
{
    uint32_t top = zf_jsonin_enter(r->in, ZF_JSON_OBJECT), map = 0;

    while (zf_jsonin_next(r->in, top)) {
        if (zf_jsonin_is(r->in, "metadata")) {
            if (!hf_index_metadata(r, err))
                return false;
            continue;
        }
        if (!zf_jsonin_is(r->in, "weight_map"))
            continue;
        map = zf_jsonin_enter(r->in, ZF_JSON_OBJECT);
        while (zf_jsonin_next(r->in, map))
            if (!hf_index_entry(r, hf_index_value, err))
                return false;
    }
    return map > 0 ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "expected an object \"weight_map\", found none");
}

static bool hf_index_read_numbers(struct hf_index_reading *r, struct zf_err *err)
{
    uint32_t top = zf_jsonin_enter(r->in, ZF_JSON_OBJECT);

    while (zf_jsonin_next(r->in, top))
        if (!hf_index_entry(r, hf_index_value_number, err))
            return false;
    return top > 0 || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "expected an object");
}

typedef bool hf_index_fn(struct hf_index_reading *r, struct zf_err *err);

static bool hf_index_load(struct zf_st_index *x, struct zf_store *st, hf_index_fn *read,
                          const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(st, x->path, err);
    zf_auto(jsonin) struct zf_jsonin *in = src ? zf_jsonin_new(src, 0, src->size, lim, err) : NULL;
    const char *slash = strrchr(x->path, '/');
    zf_auto(mem) char *dir = strndup(x->path, slash ? (size_t)(slash - x->path) : 0);
    struct hf_index_reading r = {.in = in, .out = x, .dir = dir};

    x->arena = in ? zf_arena_new(lim->model_memory, err) : NULL;
    if (!x->arena)
        return false;
    if (!dir)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for an index");
    bool ok = read(&r, err);
    zf_table_free(r.by_name);
    return zf_jsonin_end(in, err) && ok;
}

static bool hf_index_load_as(struct zf_store *st, const char *path, hf_index_fn *read,
                             const struct zf_limits *lim, struct zf_st_index *out,
                             struct zf_err *err)
{
    *out = (struct zf_st_index){.path = strdup(path)};
    if (!out->path)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for an index");
    if (hf_index_load(out, st, read, lim, err))
        return true;
    zf_st_index_fini(out);
    if (err->code == ZF_E_LIMIT)
        err->code = ZF_E_FORMAT; /* no real index is so long or so deep */
    return err->path[0] ? false : zf_err_in(err, "%s", path);
}

bool zf_st_index_load(struct zf_store *st, const char *path, const struct zf_limits *lim,
                      struct zf_st_index *out, struct zf_err *err)
{
    return hf_index_load_as(st, path, hf_index_read, lim, out, err);
}

bool zf_st_index_load_numbers(struct zf_store *st, const char *path, const struct zf_limits *lim,
                              struct zf_st_index *out, struct zf_err *err)
{
    return hf_index_load_as(st, path, hf_index_read_numbers, lim, out, err);
}

const char *zf_st_index_file(const struct zf_st_index *x, const char *tensor)
{
    const struct zf_st_index_entry *e = zf_table_find_str(x->entry, tensor);

    return e ? x->file.at[e->file] : NULL;
}

bool zf_st_index_find(struct zf_store *st, const char *dir, const char *file, const char *tail,
                      char **path_out, struct zf_err *err)
{
    static const char *const plain[] = {"model", "pytorch_model", "diffusion_pytorch_model"};
    const char *found = NULL, *other = NULL;
    const struct zf_entry *e = NULL;
    bool sure = false;
    size_t n = 0;

    *path_out = NULL;
    if (file)
        found = zf_name_ends(file, tail) ? file : NULL;
    else if (!zf_store_list(st, dir, &e, &n, err))
        return false;
    for (size_t i = 0; i < n && !sure; i++) {
        if (!zf_name_ends(e[i].name, tail)) /* entries other than files are refused when opened */
            continue;
        size_t stem = strlen(e[i].name) - strlen(tail);
        for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
            sure = sure || (strlen(plain[k]) == stem && strncmp(plain[k], e[i].name, stem) == 0);
        other = found;
        found = e[i].name;
    }
    if (found && other && !sure) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "there are two indices here, %.80s and %.80s. Point at one of them", other,
                       found);
    }
    *path_out = found ? zf_relpath_join(dir, found, err) : NULL;
    return !found || *path_out;
}

bool zf_st_index_read(const struct zf_st_index *x, struct zf_store *st,
                      const struct zf_st_index_reader *r, struct zf_build *b, struct zf_err *err)
{
    char is[ZF_ABSENT_MAX];

    for (size_t i = 0; i < x->file.n; i++) {
        const char *file = x->file.at[i];
        bool here = zf_store_has(st, file, ZF_ENTRY_FILE);

        if (!here && !zf_build_degraded(b)) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "the index names the file \"%.120s\", which %s (file %zu of %zu)", file,
                    zf_absent(st, file, is), i + 1, x->file.n);
            return zf_err_in(err, "%s", x->path);
        }
        if ((!here && !zf_build_note(b, err, "%s %s; its tensors are lost", file,
                                     zf_absent(st, file, is))) ||
            !r->add(r->ctx, file, here, err))
            return false;
    }
    return true;
}

/* The tensors that the index has in a file, but the file lacks. */
struct index_lack {
    const char *first, *why;
    size_t n;
};

/* One note per file; a missing file has its own. */
static bool index_note(const struct zf_st_index *x, const struct index_lack *lack,
                       struct zf_build *b, struct zf_err *err)
{
    for (size_t i = 0; i < x->file.n; i++) {
        const struct index_lack *l = &lack[i];

        if (l->n && zf_store_has(zf_build_store(b), x->file.at[i], ZF_ENTRY_FILE) &&
            !zf_build_note(b, err, "%zu tensor%s lost: %s names %s in %s, which %s: %s%s", l->n,
                           l->n == 1 ? " is" : "s are", x->path, l->n == 1 ? "it" : "them",
                           x->file.at[i], l->why, l->first, l->n == 1 ? "" : " ..."))
            return false;
    }
    return true;
}

bool zf_st_index_check(const struct zf_st_index *x, const struct zf_st_index_reader *r,
                       struct zf_build *b, struct zf_err *err)
{
    zf_auto(mem) struct index_lack *lack = calloc(x->file.n + 1, sizeof *lack);
    const char *first = NULL;
    size_t missing = 0;

    if (!lack)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for an index");
    for (const struct zf_st_index_entry *e = x->entry; e; e = e->hh.next) {
        const char *tensor = e->tensor, *file = x->file.at[e->file];
        const struct zf_lost how = {.file = file, .why = r->lacks(r->ctx, tensor, file)};
        struct index_lack *l = &lack[e->file];

        if (!how.why)
            continue;
        first = first ? first : tensor;
        missing++;
        l->first = l->n++ ? l->first : tensor;
        l->why = how.why;
        if (zf_build_degraded(b) && !zf_build_missing(b, tensor, strlen(tensor), &how, err))
            return false;
    }
    if (!missing || zf_build_degraded(b))
        return index_note(x, lack, b, err);
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the index names tensor \"%.80s\" in %.80s, but no file holds it (%zu of %u tensors "
            "are missing)",
            first, zf_st_index_file(x, first), missing, HASH_COUNT(x->entry));
    return zf_err_in(err, "%s", x->path);
}
