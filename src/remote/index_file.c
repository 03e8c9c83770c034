/* SPDX-License-Identifier: Apache-2.0 */
#include "index_file.h"

#include <inttypes.h>
#include <string.h>

#include <zf/base/path.h>
#include <zf/base/search.h>
#include <zf/codec/json.h>

void index_file_fini(struct index_file *f)
{
    zf_arena_free(f->text);
    free(f->at);
    *f = (struct index_file){.text = NULL};
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool index_entry(struct index_file *f, const json_t *o, struct zf_err *err)
{
    const json_t *path = json_object_get(o, "path");
    const char *text = json_string_value(path);
    struct index_file_entry *e = &f->at[f->n];

    if (!text || strlen(text) != json_string_length(path) || !zf_relpath_ok(text)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "file %zu has the path \"%.100s\", which is not inside the directory", f->n,
                       text ? text : "");
    }
    if (!zf_json_u64(json_object_get(o, "size"), &e->size))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the file \"%.100s\" has no \"size\"", text);
    e->path = zf_arena_str(f->text, text, strlen(text), err);
    f->n += e->path != NULL;
    return e->path != NULL;
}

/* '/' sorts in front of all else, so that a directory's files follow one another. */
static int index_path_cmp(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    int x = *a == '/' ? 1 : (unsigned char)*a * 2, y = *b == '/' ? 1 : (unsigned char)*b * 2;
    return x - y;
}

static int index_cmp(const void *a, const void *b)
{
    const struct index_file_entry *x = a, *y = b;

    return index_path_cmp(x->path, y->path);
}

/* No path twice, and no file that is a directory too: its entries would follow it at once. */
static bool index_check(const struct index_file *f, struct zf_err *err)
{
    for (size_t i = 1; i < f->n; i++) {
        const char *was = f->at[i - 1].path, *is = f->at[i].path;
        size_t n = strlen(was);

        if (strncmp(was, is, n) == 0 && (is[n] == '\0' || is[n] == '/')) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.100s\" is %s", was,
                           is[n] ? "a file and a directory" : "in it twice");
        }
    }
    return true;
}

static bool index_files(struct index_file *f, const json_t *files, const struct zf_limits *lim,
                        struct zf_err *err)
{
    size_t n = json_array_size(files);

    if (n > lim->dir_entries) {
        return zf_fail_limit(err, ZF_LIMIT_dir_entries, ZF_OFF_NONE,
                             "it has %zu files, more than %" PRIu64 " (limit dir_entries)", n,
                             lim->dir_entries);
    }
    f->text = zf_arena_new(UINT64_MAX, err); /* bounded by the document */
    f->at = calloc(n ? n : 1, sizeof *f->at);
    if (!f->text || !f->at)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (size_t i = 0; i < n; i++)
        if (!index_entry(f, json_array_get(files, i), err))
            return false;
    qsort(f->at, f->n, sizeof *f->at, index_cmp);
    return index_check(f, err);
}

bool index_file_read(const char *body, uint64_t n, const struct zf_limits *lim,
                     struct index_file *out, struct zf_err *err)
{
    zf_auto(json) json_t *doc = zf_json_load(body, n, lim, err);
    zf_auto(index_file) struct index_file f = {.text = NULL};
    uint64_t version;

    *out = f;
    if (!doc)
        return false;
    const json_t *files = json_object_get(doc, "files");
    if (!zf_json_u64(json_object_get(doc, "zerofs_index"), &version) || !json_is_array(files)) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "it was not written by zerofs index: \"zerofs_index\" or \"files\" is missing");
    }
    if (version != INDEX_FILE_VERSION) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "it has version %" PRIu64 ", but this zerofs reads version %d", version,
                       INDEX_FILE_VERSION);
    }
    if (!index_files(&f, files, lim, err))
        return false;
    *out = f;
    f = (struct index_file){.text = NULL};
    return true;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The first file below `dir`, of n bytes. */
static size_t index_first(const struct index_file *f, const char *dir, size_t n)
{
    size_t i;

    ZF_SEARCH(i, n ? f->n : 0, index_path_cmp(f->at[i].path, dir) >= 0);
    return i;
}

bool index_file_list(const struct index_file *f, const char *dir, struct entries *out,
                     struct zf_err *err)
{
    size_t n = strlen(dir), first = index_first(f, dir, n), i = first;

    for (; i < f->n; i++) {
        const char *path = f->at[i].path;

        if (n && (strncmp(path, dir, n) != 0 || path[n] != '/'))
            break;
        const char *name = path + n + (n > 0), *slash = strchr(name, '/');
        struct entry e = {
            .name = name, .dir = slash != NULL, .sized = !slash, .size = slash ? 0 : f->at[i].size};
        if (!entries_add(out, &e, slash ? (size_t)(slash - name) : strlen(name), err))
            return false;
    }
    if (i == first && n)
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "no such directory in " INDEX_FILE_NAME);
    return true;
}
