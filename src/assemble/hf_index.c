/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/hf_index.h>

#include <string.h>

#include <zf/base/path.h>

void zf_st_index_fini(struct zf_st_index *x)
{
    json_decref(x->json);
    free(x->file);
    free(x->path);
    *x = (struct zf_st_index){.json = NULL};
}

/* Gathers the file names of the map, each once.  A set of them is kept as a JSON object. */
static bool gather(struct zf_st_index *x, struct zf_err *err)
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

static bool load(struct zf_st_index *x, struct zf_store *st, const struct zf_limits *lim,
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
    return gather(x, err);
}

bool zf_st_index_load(struct zf_store *st, const char *path, const struct zf_limits *lim,
                      struct zf_st_index *out, struct zf_err *err)
{
    *out = (struct zf_st_index){.path = strdup(path)};
    if (!out->path) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for an index");
    }
    if (load(out, st, lim, err)) {
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

static bool has_tail(const char *name, const char *tail)
{
    size_t n = strlen(name), t = strlen(tail);

    return n > t && strcmp(name + n - t, tail) == 0;
}

bool zf_st_index_find(struct zf_store *st, const char *tail, char **path_out, struct zf_err *err)
{
    static const char *const plain[] = {"model", "pytorch_model", "diffusion_pytorch_model"};
    const struct zf_entry *e;
    const char *found = NULL, *other = NULL;
    bool sure = false;
    size_t n;

    *path_out = NULL;
    if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n && !sure; i++) {
        if (!has_tail(e[i].name, tail)) { /* what is no file is refused when it is opened */
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
