/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files that stand for themselves: one, or several in a directory without an index. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/companions.h>
#include <zf/assemble/names.h>
#include <zf/assemble/one_file.h>
#include <zf/base/name.h>
#include <zf/format.h>

#include "join.h"

/* The weights, where a directory holds other things as well. */
static const char main_file[] = "model.safetensors";

/* The one file pointed at, whatever it is called. */
static bool probe_file(struct zf_store *st, const char *file, struct zf_probe *out,
                       struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(st, file, err);

    if (!src) {
        return false;
    }
    /* A damaged one keeps its name, and open() says what is wrong with it. */
    if (zf_st_sniff(src)) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "a safetensors header");
    } else if (zf_st_file_named(file)) {
        out->fit = ZF_FIT_NAMES;
        snprintf(out->why, sizeof out->why, "the file's name");
    }
    return true;
}

static bool probe(struct zf_store *st, const struct zf_open_opts *o, struct zf_probe *out,
                  struct zf_err *err)
{
    const char *file = zf_one_file(st);
    const struct zf_entry *e;
    size_t n, found = 0;

    (void)o;
    out->fit = ZF_FIT_NO;
    if (file) {
        return probe_file(st, file, out, err);
    }
    if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        found += e[i].kind == ZF_ENTRY_FILE && zf_st_file_named(e[i].name);
    }
    if (found) {
        out->fit = ZF_FIT_NAMES;
        snprintf(out->why, sizeof out->why, "%zu safetensors file%s", found, found == 1 ? "" : "s");
    }
    return true;
}

/* STEM-iiiii-of-nnnnn.safetensors: without an index only the names tell how many there are. */
struct series {
    const char *stem;
    size_t stem_len;
    unsigned long want, of; /* the next number; 0 = no series */
};

static bool end_series(const struct series *s, struct zf_build *b, struct zf_err *err)
{
    if (!s->of || s->want > s->of) {
        return true;
    }
    if (!zf_build_degraded(b)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "file %05lu of %05lu of the series %.*s is missing", s->want, s->of,
                       (int)s->stem_len, s->stem);
    }
    return zf_build_note(b, err,
                         "file %05lu of %05lu of the series %.*s is missing: its tensors are lost",
                         s->want, s->of, (int)s->stem_len, s->stem);
}

/* The length of STEM and the two numbers, or 0 when the file is of no series. */
static size_t series_number(const char *file, unsigned long *number_out, unsigned long *of_out)
{
    enum { TAIL = sizeof "-iiiii-of-nnnnn.safetensors" - 1 };
    size_t len = strlen(file), stem = len > TAIL ? len - TAIL : 0;
    int end = 0;

    if (!stem ||
        sscanf(file + stem, "-%5lu-of-%5lu.safetensors%n", number_out, of_out, &end) != 2 ||
        end != TAIL) {
        return 0;
    }
    return stem;
}

/* Is a file of a series missing?  The listing is in natural order, so numbers ascend. */
static bool check_series(const struct zf_entry *e, size_t n, struct zf_build *b, struct zf_err *err)
{
    struct series s = {.of = 0};

    for (size_t i = 0; i < n; i++) {
        unsigned long number, of;
        size_t stem = series_number(e[i].name, &number, &of);

        if (!stem) {
            continue;
        }
        if (stem != s.stem_len || strncmp(e[i].name, s.stem, stem) != 0) {
            if (!end_series(&s, b, err)) {
                return false;
            }
            s = (struct series){.stem = e[i].name, .stem_len = stem, .want = 1};
        }
        s.of = of;
        s.want += number == s.want;
    }
    return end_series(&s, b, err);
}

/* Is there the file of another rank, that holds other boxes of the same tensors? */
static bool has_sibling(struct zf_store *st, const char *file)
{
    unsigned long rank = zf_st_file_rank(file);
    struct zf_err ignored = {.code = ZF_OK};
    const struct zf_entry *e;
    size_t n;

    if (!rank || !zf_store_list(st, "", &e, &n, &ignored)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (zf_st_file_rank(e[i].name) && zf_st_file_rank(e[i].name) != rank) {
            return true;
        }
    }
    return false;
}

/* Says that the one file pointed at is part of a series.  Errors: ZF_E_UNKNOWN it holds boxes only. */
static bool note_series(struct zf_store *st, const char *file, const struct zf_open_opts *o,
                        struct zf_build *b, struct zf_err *err)
{
    unsigned long number, of;

    if (has_sibling(st, file) && zf_st_file_has_boxes(st, file, o->lim)) {
        zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                "this file holds one rank's parts of tensors, the others are beside it: point at "
                "its directory");
        return zf_err_in(err, "%s", file);
    }
    if (!series_number(file, &number, &of) || of < 2) {
        return true;
    }
    return zf_build_note(
        b, err, "this is file %lu of %lu: point at its directory to see all tensors", number, of);
}

static bool add_all(struct zf_st_files *files, struct zf_store *st, const struct zf_open_opts *o,
                    struct zf_build *b, struct zf_err *err)
{
    const char *one = zf_one_file(st);
    const struct zf_entry *e;
    size_t n;

    if (one) {
        return note_series(st, one, o, b, err) && zf_st_files_add(files, st, one, o, b, err);
    }
    if (!zf_store_list(st, "", &e, &n, err) || !check_series(e, n, b, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned long number, of;
        bool file = e[i].kind != ZF_ENTRY_DIR || series_number(e[i].name, &number, &of);

        /* What should be a file and is none is refused when it is opened. */
        if (file && zf_st_file_named(e[i].name) &&
            !zf_st_files_add(files, st, e[i].name, o, b, err)) {
            return false;
        }
    }
    return true;
}

/* Files with the same names in them are different models: each gets a set of its own, except the
 * one that is plainly meant. */
static bool join_apart(const struct zf_st_files *files, struct zf_build *b, struct zf_err *err)
{
    for (size_t i = 0; i < files->n; i++) {
        struct zf_st_files one = {.file = &files->file[i], .n = 1, .lacks = files->lacks};
        bool root = strcmp(files->file[i].path, main_file) == 0;
        char set[ZF_NAME_MAX + 1];
        size_t n;
        const char *stem = zf_st_file_stem(files->file[i].path, &n);

        zf_name_encode(set, stem, n, "");
        if (zf_names_reserved(set)) {
            zf_name_encode(set, files->file[i].path, strlen(files->file[i].path), "");
        }
        if (!zf_st_join(&one, NULL, root ? NULL : set, b, err)) {
            return false;
        }
    }
    return zf_build_note(
        b, err,
        "the safetensors files here hold tensors of the same names: each but %s has a "
        "directory of its own",
        main_file);
}

static bool open_safetensors(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                             struct zf_err *err)
{
    zf_auto(st_files) struct zf_st_files files = {.n = 0};
    bool collide = false;

    if (!zf_st_files_init(&files, o->lim, err) || !add_all(&files, st, o, b, err) ||
        !zf_st_files_some(&files, err) || !zf_st_join_collides(&files, &collide, err)) {
        return false;
    }
    if (collide ? !join_apart(&files, b, err) : !zf_st_join(&files, NULL, NULL, b, err)) {
        return false;
    }
    return zf_st_files_metadata(&files, b, err) &&
           (zf_one_file(st) || (zf_beside_add(st, o, b, err) && zf_beside_weights(st, b, err)));
}

const struct zf_format zf_format_safetensors = {
    .name = "safetensors",
    .summary = "safetensors files without an index",
    .refines = "torch",
    .one_file = true,
    .probe = probe,
    .open = open_safetensors,
};
