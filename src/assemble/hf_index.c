/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/hf_index.h>

#include <string.h>

#include <zf/assemble/files.h>
#include <zf/base/name.h>
#include <zf/base/path.h>

void zf_st_index_fini(struct zf_st_index *x)
{
    json_decref(x->json);
    free(x->file);
    free(x->path);
    *x = (struct zf_st_index){.json = NULL};
}

/* Gathers the file names of the map, each once.  A set of them is kept as a JSON object. */
static bool hf_index_gather(struct zf_st_index *x, struct zf_err *err)
{
    zf_auto(json) json_t *seen = json_object();
    const char *tensor;
    json_t *v;

    x->file = calloc(json_object_size(x->map) + 1, sizeof *x->file);
    if (!seen || !x->file) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for an index");
    }
    json_object_foreach(x->map, tensor, v)
    {
        const char *file = json_string_value(v);

        if (!file || !zf_relpath_ok(file)) {
            return zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "tensor \"%.80s\" is said to be in \"%.80s\", expected the name of a file "
                "beside the index",
                tensor, file ? file : "(no text)");
        }
        if (json_object_get(seen, file)) {
            continue;
        }
        if (json_object_set_new(seen, file, json_true()) != 0) {
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for an index");
        }
        x->file[x->n_files++] = file;
    }
    return true;
}

static bool hf_index_load(struct zf_st_index *x, struct zf_store *st, const struct zf_limits *lim,
                          struct zf_err *err)
{
    uint64_t n = 0;
    zf_auto(mem) char *text = zf_store_slurp(st, x->path, lim->json_bytes, &n, err);

    if (!text) {
        return false;
    }
    x->json = zf_json_load(text, n, lim, err);
    if (!x->json) {
        return false;
    }
    x->map = json_object_get(x->json, "weight_map");
    if (!json_is_object(x->map)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "expected an object \"weight_map\", found none");
    }
    return hf_index_gather(x, err);
}

bool zf_st_index_load(struct zf_store *st, const char *path, const struct zf_limits *lim,
                      struct zf_st_index *out, struct zf_err *err)
{
    *out = (struct zf_st_index){.path = strdup(path)};
    if (!out->path) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for an index");
    }
    if (hf_index_load(out, st, lim, err)) {
        return true;
    }
    zf_st_index_fini(out);
    if (err->code == ZF_E_LIMIT) {
        err->code = ZF_E_FORMAT; /* no true index is so long or so deep */
    }
    return err->path[0] ? false : zf_err_in(err, "%s", path);
}

const char *zf_st_index_file(const struct zf_st_index *x, const char *tensor)
{
    return json_string_value(json_object_get(x->map, tensor));
}

bool zf_st_index_find(struct zf_store *st, const char *file, const char *tail, char **path_out,
                      struct zf_err *err)
{
    static const char *const plain[] = {"model", "pytorch_model", "diffusion_pytorch_model"};
    const char *found = NULL, *other = NULL;
    const struct zf_entry *e = NULL;
    bool sure = false;
    size_t n = 0;

    *path_out = NULL;
    if (file) {
        found = zf_name_ends(file, tail) ? file : NULL;
    } else if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n && !sure; i++) {
        if (!zf_name_ends(e[i].name, tail)) { /* what is no file is refused when it is opened */
            continue;
        }
        size_t stem = strlen(e[i].name) - strlen(tail);
        for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++) {
            sure = sure || (strlen(plain[k]) == stem && strncmp(plain[k], e[i].name, stem) == 0);
        }
        other = found;
        found = e[i].name;
    }
    if (found && other && !sure) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "two indices are here, %.80s and %.80s; point at one of them", other, found);
    }
    if (found && !(*path_out = strdup(found))) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a file name");
    }
    return true;
}

bool zf_st_index_read(const struct zf_st_index *x, struct zf_store *st,
                      const struct zf_st_index_reader *r, struct zf_build *b, struct zf_err *err)
{
    char is[ZF_ABSENT_MAX];

    for (size_t i = 0; i < x->n_files; i++) {
        const char *file = x->file[i];
        bool here = zf_store_has(st, file, ZF_ENTRY_FILE);

        if (!here && !zf_build_degraded(b)) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "the index names the file \"%.120s\", which %s (file %zu of %zu)", file,
                    zf_absent(st, file, is), i + 1, x->n_files);
            return zf_err_in(err, "%s", x->path);
        }
        if ((!here && !zf_build_note(b, err, "%s %s; its tensors are lost", file,
                                     zf_absent(st, file, is))) ||
            !r->add(r->ctx, file, here, err)) {
            return false;
        }
    }
    return true;
}

bool zf_st_index_check(const struct zf_st_index *x, const struct zf_st_index_reader *r,
                       struct zf_build *b, struct zf_err *err)
{
    const char *tensor, *first = NULL;
    size_t missing = 0;
    json_t *v;

    json_object_foreach(x->map, tensor, v)
    {
        const char *file = json_string_value(v); /* checked when the index was read */
        const struct zf_lost how = {.file = file, .why = r->lacks(r->ctx, tensor, file)};

        if (!how.why) {
            continue;
        }
        first = first ? first : tensor;
        missing++;
        if (zf_build_degraded(b) &&
            (!zf_build_note(b, err, "tensor %s is lost: %s names it in %s, which does not hold it",
                            tensor, x->path, file) ||
             !zf_build_missing(b, tensor, strlen(tensor), &how, err))) {
            return false;
        }
    }
    if (!missing || zf_build_degraded(b)) {
        return true;
    }
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the index names tensor \"%.80s\" in %.80s, but no file holds it (%zu of %zu tensors "
            "are missing)",
            first, zf_st_index_file(x, first), missing, json_object_size(x->map));
    return zf_err_in(err, "%s", x->path);
}
