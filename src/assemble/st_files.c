/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/st_files.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>
#include <zf/base/bytes.h>
#include <zf/base/name.h>
#include <zf/codec/json.h>

static const char suffix[] = ".safetensors";

/* The key in the header's metadata under which torch.distributed.checkpoint's Hugging Face writer keeps the boxes.
 * Source: torch/distributed/checkpoint/_hf_utils.py (2.8 … 2.15). */
static const char boxes_key[] = "DCP_SHARDING_INFO";

bool zf_st_files_init(struct zf_st_files *f, const struct zf_limits *lim, struct zf_err *err)
{
    *f = (struct zf_st_files){.n = 0};
    f->arena = zf_arena_new(lim->model_memory, err);
    return f->arena != NULL;
}

void zf_st_files_expect(struct zf_st_files *f, struct zf_store *st, const char *dir)
{
    zf_expect_free(f->ahead);
    f->ahead = zf_store_expect_in(st, dir, zf_st_file_named, zf_st_begin);
}

void zf_st_files_fini(struct zf_st_files *f)
{
    zf_expect_free(f->ahead);
    for (size_t i = 0; i < f->n; i++) {
        zf_source_unref(&f->at[i].src);
        zf_st_boxes_fini(&f->at[i].boxes);
    }
    zf_vec_fini(f);
    zf_arena_free(f->arena);
    *f = (struct zf_st_files){.n = 0};
}

static bool st_files_load_boxes(struct zf_st_file *file, struct zf_arena *a,
                                const struct zf_limits *lim, struct zf_err *err)
{
    const char *text = zf_st_meta(&file->head, boxes_key);

    if (!text || zf_st_boxes_load(text, lim, a, &file->boxes, err))
        return true;
    err->off = ZF_OFF_NONE; /* an offset in the unescaped text, not in the file */
    return zf_err_in(err, "%s!%s", file->path, boxes_key);
}

/* Reads the header and boxes of one file; zf_st_check_size() checks the file's size. */
static bool st_files_load(struct zf_st_file *file, struct zf_st_files *f, struct zf_store *st,
                          const struct zf_limits *lim, struct zf_err *err)
{
    zf_expect_reach(f->ahead, file->path);
    file->src = zf_store_open(st, file->path, err);
    if (file->src && zf_lfs_is(file->src)) {
        (void)zf_lfs_fail(err);
        return zf_err_in(err, "%s", file->path);
    }
    return file->src && zf_st_load_head(file->src, f->arena, lim, &file->head, err) &&
           st_files_load_boxes(file, f->arena, lim, err);
}

static void st_files_drop(struct zf_st_file *file)
{
    zf_source_unref(&file->src);
    zf_st_boxes_fini(&file->boxes);
}

/* Turns the failure to read a file into a note, where the build is degraded. */
static bool st_files_judge(struct zf_st_files *f, struct zf_build *b, struct zf_err *err)
{
    if (err->code == ZF_E_NOMEM || !zf_build_degraded(b))
        return false;
    if (!f->n_skipped)
        f->first = *err;
    return zf_note_failure(b, ZF_NOTE_OTHER, NULL, err, "%s", "");
}

bool zf_st_files_add(struct zf_st_files *f, struct zf_store *st, const char *path,
                     const struct zf_limits *lim, struct zf_build *b, struct zf_err *err)
{
    struct zf_st_file file = {.path = zf_arena_str(f->arena, path, strlen(path), err)};

    if (!file.path)
        return false;
    bool loaded = st_files_load(&file, f, st, lim, err);

    if (loaded && (zf_st_check_size(&file.head, file.src, err) || st_files_judge(f, b, err)) &&
        zf_vec_room(f, 1, err)) {
        f->at[f->n++] = file;
        return true;
    }
    st_files_drop(&file);
    if (loaded || !st_files_judge(f, b, err))
        return false;
    f->n_skipped++;
    return zf_st_files_lack(f, err, "%s", path);
}

bool zf_st_files_lack(struct zf_st_files *f, struct zf_err *err, const char *fmt, ...)
{
    char name[200];
    va_list ap;

    if (f->lacks)
        return true;
    va_start(ap, fmt);
    (void)vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    f->lacks = zf_arena_str(f->arena, name, strlen(name), err);
    return f->lacks != NULL;
}

bool zf_st_files_some(const struct zf_st_files *f, struct zf_err *err)
{
    if (f->n == 0 && f->n_skipped) {
        *err = f->first;
        return false;
    }
    return true;
}

const char *zf_st_file_stem(const char *path, size_t *n_out)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    *n_out = strlen(name) - (zf_st_file_named(name) ? sizeof suffix - 1 : 0);
    return name;
}

bool zf_st_file_named(const char *path)
{
    size_t n = strlen(path);

    return n > sizeof suffix - 1 && strcmp(path + n - (sizeof suffix - 1), suffix) == 0;
}

unsigned long zf_st_file_rank(const char *name)
{
    struct zf_series s;
    unsigned long rank = 0;
    int end = 0;

    return zf_series_parse(name, &s) && strcmp(s.tail, suffix) == 0 &&
                   sscanf(name, "shard-%5lu-model%n", &rank, &end) == 1 && (size_t)end == s.stem
               ? rank
               : 0;
}

/* Is the entry one that every file has, or the boxes, and so nothing to show under state/? */
static bool st_files_is_usual(const char *key, const char *val)
{
    return strcmp(key, boxes_key) == 0 || strcmp(key, "DCP_VERSION") == 0 ||
           (strcmp(key, "format") == 0 && strcmp(val, "pt") == 0);
}

static bool st_files_show_metadata(const struct zf_st_file *file, bool alone, struct zf_build *b,
                                   struct zf_err *err)
{
    zf_auto(json) json_t *all = json_object();
    zf_auto(mem) char *text = NULL;
    bool news = false, ok = all != NULL;
    char raw[512], name[ZF_NAME_MAX + 1], path[ZF_NAME_MAX + 8];
    size_t n;

    for (uint64_t i = 0; ok && i < file->head.n_meta; i++) {
        const char *k = file->head.meta_key[i], *v = file->head.meta_val[i];
        news = news || !st_files_is_usual(k, v);
        ok = strcmp(k, boxes_key) == 0 || json_object_set_new(all, k, json_string(v)) == 0;
    }
    if (ok && !news)
        return true;
    text = ok ? json_dumps(all, JSON_INDENT(1)) : NULL;
    if (!text)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for metadata as JSON");
    const char *stem = zf_st_file_stem(file->path, &n);
    int len = alone ? snprintf(raw, sizeof raw, "metadata")
                    : snprintf(raw, sizeof raw, "%.*s.metadata", (int)n, stem);
    zf_name_encode(name, raw, (size_t)len, ".json");
    snprintf(path, sizeof path, "state/%s", name);
    return zf_build_text(b, path, text, strlen(text), err);
}

bool zf_st_files_metadata(const struct zf_st_files *f, struct zf_build *b, struct zf_err *err)
{
    for (size_t i = 0; i < f->n; i++)
        if (!st_files_show_metadata(&f->at[i], f->n == 1, b, err))
            return false;
    return true;
}

/* Is the key anywhere in the header's text?  Much cheaper than reading it as JSON. */
static bool st_files_mentions_boxes(struct zf_source *src)
{
    struct zf_err ignored = {.code = ZF_OK};
    uint8_t word[8];

    if (!zf_st_sniff(src) || !zf_source_pread(src, word, sizeof word, 0, &ignored))
        return false;
    struct zf_bytes b = zf_bytes_of(word, sizeof word);
    uint64_t n = zf_bytes_le64(&b);
    zf_auto(mem) char *text = zf_source_slurp(src, sizeof word, n, &ignored);

    return text && memmem(text, (size_t)n, boxes_key, sizeof boxes_key - 1);
}

bool zf_st_file_has_boxes(struct zf_store *st, const char *path, const struct zf_limits *lim)
{
    struct zf_err ignored = {.code = ZF_OK};
    struct zf_st_header head;
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(lim->model_memory, &ignored);
    zf_auto(source) struct zf_source *src = zf_store_open(st, path, &ignored);

    return arena && src && st_files_mentions_boxes(src) &&
           zf_st_load_head(src, arena, lim, &head, &ignored) && zf_st_meta(&head, boxes_key);
}
