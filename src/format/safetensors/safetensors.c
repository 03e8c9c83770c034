/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files without an index: a single one, or several in a directory. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/companions.h>
#include <zf/assemble/names.h>
#include <zf/base/name.h>
#include <zf/format.h>

#include "join.h"
#include "series.h"

/* The file of the weights, if a directory has other files, too. */
static const char main_file[] = "model.safetensors";

/* Probes a single file that was given, whatever its name. */
static bool safetensors_probe_file(struct zf_store *st, const char *file, struct zf_probe *out,
                                   struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(st, file, err);

    if (!src)
        return false;
    /* A damaged file is still recognized by its name, and open() reports the damage. */
    if (zf_st_sniff(src)) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "a safetensors header");
    } else if (zf_st_file_named(file)) {
        out->fit = ZF_FIT_NAMES;
        snprintf(out->why, sizeof out->why, "the file's name");
    }
    return true;
}

static bool safetensors_probe(const struct zf_save *save, const struct zf_open_opts *o,
                              struct zf_probe *out, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n, found = 0;

    (void)o;
    out->fit = ZF_FIT_NO;
    if (save->file)
        return safetensors_probe_file(save->store, save->file, out, err);
    if (!zf_store_list(save->store, "", &e, &n, err))
        return false;
    for (size_t i = 0; i < n; i++)
        found += e[i].kind == ZF_ENTRY_FILE && zf_st_file_named(e[i].name);
    if (found) {
        out->fit = ZF_FIT_NAMES;
        snprintf(out->why, sizeof out->why, "%zu safetensors file%s", found, found == 1 ? "" : "s");
    }
    return true;
}

/* True if there is a file of another rank, with other boxes of the same tensors. */
static bool safetensors_has_sibling(struct zf_store *st, const char *file)
{
    unsigned long rank = zf_st_file_rank(file), other;

    for (struct zf_entries l = zf_store_entries(st, ""); rank && l.e < l.end; l.e++) {
        other = zf_st_file_rank(l.e->name);
        if (other && other != rank)
            return true;
    }
    return false;
}

/* Notes that the given file is one of a series.  Errors: ZF_E_UNKNOWN it only has boxes of tensors. */
static bool safetensors_note_series(struct zf_store *st, const char *file,
                                    const struct zf_open_opts *o, struct zf_build *b,
                                    struct zf_err *err)
{
    struct zf_series s;

    if (safetensors_has_sibling(st, file) && zf_st_file_has_boxes(st, file, o->lim)) {
        zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                "this file holds one rank's parts of the tensors. Point at its directory to see "
                "them whole");
        return zf_err_in(err, "%s", file);
    }
    return !st_series(file, &s) || s.of < 2 ||
           zf_build_note(b, err,
                         "this is file %lu of %lu. Point at its directory to see all tensors",
                         s.number, s.of);
}

static bool safetensors_add_all(struct zf_st_files *files, const struct zf_save *save,
                                const struct zf_open_opts *o, struct zf_build *b,
                                struct zf_err *err)
{
    struct zf_store *st = save->store;
    const struct zf_entry *e;
    size_t n;

    if (save->file) {
        return safetensors_note_series(st, save->file, o, b, err) &&
               zf_st_files_add(files, st, save->file, o->lim, b, err);
    }
    if (!zf_store_list(st, "", &e, &n, err) || !st_series_check(files, e, n, b, err))
        return false;
    zf_st_files_expect(files, st, "");
    for (size_t i = 0; i < n; i++) {
        struct zf_series s;
        bool file = e[i].kind != ZF_ENTRY_DIR || st_series(e[i].name, &s);

        /* An entry that is not a file is refused when it is opened. */
        if (file && zf_st_file_named(e[i].name) &&
            !zf_st_files_add(files, st, e[i].name, o->lim, b, err))
            return false;
    }
    return true;
}

/* Files that contain the same tensor names are different models: each gets a separate set, except the
 * one that is clearly the main one. */
static bool safetensors_join_each(const struct zf_st_files *files, struct zf_build *b,
                                  struct zf_err *err)
{
    for (size_t i = 0; i < files->n; i++) {
        struct zf_st_files one = {.at = &files->at[i], .n = 1, .lacks = files->lacks};
        bool root = strcmp(files->at[i].path, main_file) == 0;
        char set[ZF_NAME_MAX + 1];
        size_t n;
        const char *stem = zf_st_file_stem(files->at[i].path, &n);

        zf_name_encode(set, stem, n, "");
        if (zf_names_reserved(set))
            zf_name_encode(set, files->at[i].path, strlen(files->at[i].path), "");
        const struct st_join_how how = {.set = root ? NULL : set};
        if (!st_join(&one, &how, b, err))
            return false;
    }
    return zf_build_note(b, err,
                         "the safetensors files here hold tensors of the same names, so each "
                         "except %s has its own directory",
                         main_file);
}

static bool safetensors_open_safetensors(const struct zf_save *save, const struct zf_open_opts *o,
                                         struct zf_build *b, struct zf_err *err)
{
    zf_auto(st_files) struct zf_st_files files = {.n = 0};
    bool collide = false;

    if (!zf_st_files_init(&files, o->lim, err) || !safetensors_add_all(&files, save, o, b, err) ||
        !zf_st_files_some(&files, err) || !st_join_collides(&files, &collide, err))
        return false;
    if (collide ? !safetensors_join_each(&files, b, err)
                : !st_join(&files, &(struct st_join_how){0}, b, err))
        return false;
    return zf_st_files_metadata(&files, b, err) &&
           (save->file || zf_companions_add(save->store, o, b, err));
}

const struct zf_format zf_format_safetensors = {
    .name = "safetensors",
    .summary = "safetensors files without an index",
    .refines = "torch",
    .one_file = true,
    .whole = true,
    .probe = safetensors_probe,
    .open = safetensors_open_safetensors,
};
