/* SPDX-License-Identifier: Apache-2.0 */
/* Finds files next to those of a checkpoint that its family left out without a note. */
#include "beside.h"

#include <ctype.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/assemble/st_files.h>
#include <zf/assemble/torch_files.h>
#include <zf/base/hash.h>
#include <zf/base/name.h>
#include <zf/base/out.h>
#include <zf/base/sorted.h>

#include "save_name.h"

/* A hash of the first component of a path; alike: equal for names that differ only in numbers. */
static uint64_t unshown_print(const char *path, bool alike)
{
    char name[ZF_NAME_MAX + 1];
    size_t n = 0;

    for (const char *p = path; *p && *p != '/' && *p != '!' && n < sizeof name; n++) {
        bool number = alike && isdigit((unsigned char)*p);

        name[n] = number ? '0' : *p;
        p += number ? strspn(p, "0123456789") : 1;
    }
    return zf_hash(alike, name, n);
}

/* Collects the hashes, of both kinds, of the entries of st from which the checkpoint is made. */
static bool unshown_sources(const struct zf_store *st, const struct zf_build *b,
                            struct zf_sorted *out, struct zf_err *err)
{
    const char *dir = zf_store_name(st), *name;
    size_t n = strlen(dir);

    while (n > 0 && dir[n - 1] == '/')
        n--;
    for (size_t i = 0; (name = zf_build_source(b, i)) != NULL; i++) {
        const char *rest = name + n;

        if (strncmp(name, dir, n) != 0 || *rest != '/')
            continue;
        rest += strspn(rest, "/");
        if (!zf_sorted_add(out, unshown_print(rest, false), err) ||
            !zf_sorted_add(out, unshown_print(rest, true), err))
            return false;
    }
    return true;
}

/* Does the safetensors file contain tensor data?  True, too, if it cannot be read. */
static bool unshown_st_holds(struct zf_store *st, const char *path)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(source) struct zf_source *src = zf_store_open(st, path, &ignored);
    uint64_t n = 0;

    return !src || src->size < sizeof n || !zf_source_pread(src, &n, sizeof n, 0, &ignored) ||
           le64toh(n) < src->size - sizeof n;
}

/* Is this a part of a numbered series?  These are never copies of each other, while those of ranks may be. */
static bool unshown_is_part(const char *name)
{
    struct zf_series s;

    return zf_series_parse(name, &s) && !zf_st_file_rank(name);
}

/* Is it, by its name, a file of weights or of an optimizer? */
static bool unshown_is_named(const char *name)
{
    return zf_st_file_named(name) ||
           (zf_torch_set_named(name) && zf_torch_set_role(name) != ZF_ROLE_REST);
}

/* Did torch.distributed.checkpoint write this directory? */
static bool unshown_is_dcp(struct zf_store *st, const char *dir)
{
    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++)
        if (l.e->kind == ZF_ENTRY_FILE &&
            (strcmp(l.e->name, ".metadata") == 0 || zf_name_ends(l.e->name, ".distcp")))
            return true;
    return false;
}

/* State for examining one directory. */
struct unshown {
    struct zf_store *st;
    const struct zf_limits *lim;
    struct zf_build *b;
    enum unshown_kind kind;
    struct zf_sorted shown; /* hashes of the entries from which the checkpoint is made */
    struct zf_sorted told; /* hashes (alike) of files that are not shown, but mentioned in a note */
    unsigned below;        /* directories examined two levels down */
};

/* Are there weight files directly in the directory?  sniff: also files of other states. */
static bool unshown_holds(const struct unshown *u, const char *dir, bool sniff)
{
    char path[4 * ZF_NAME_MAX + 4];

    for (struct zf_entries l = zf_store_entries(u->st, dir); l.e < l.end; l.e++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, l.e->name);
        if (l.e->kind == ZF_ENTRY_FILE && unshown_is_named(l.e->name) &&
            (zf_st_file_named(l.e->name) || (sniff && zf_torch_set_sniff(u->st, path))))
            return true;
    }
    return false;
}

/* At most this many are examined in the whole save: on remote storage each takes a request. */
enum { UNSHOWN_BELOW = 64 };

/* Are there weights in the directory, or weights or a DCP save in one of its subdirectories? */
static bool unshown_has_weights(struct unshown *u, const char *dir)
{
    char path[2 * ZF_NAME_MAX + 2];

    if (unshown_holds(u, dir, u->kind == UNSHOWN_ALL))
        return true;
    for (struct zf_entries l = zf_store_entries(u->st, dir);
         l.e < l.end && u->below < UNSHOWN_BELOW; l.e++) {
        if (l.e->kind != ZF_ENTRY_DIR || save_name_is_ignored(l.e->name))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", dir, l.e->name);
        u->below++;
        if (unshown_is_dcp(u->st, path) || unshown_holds(u, path, false))
            return true;
    }
    return false;
}

/* Does a note name the file, or that of another rank? */
static bool unshown_is_told(struct unshown *u, const char *name)
{
    return zf_build_noted(u->b, name) ||
           (!unshown_is_part(name) && zf_sorted_has(&u->told, unshown_print(name, true)));
}

/* Should the file have been shown or mentioned?  alike: a file whose name differs only in numbers is shown. */
static bool unshown_file(struct unshown *u, const char *name, bool alike)
{
    return (u->kind & UNSHOWN_FILES) && (!alike || unshown_is_part(name)) &&
           unshown_is_named(name) && !unshown_is_told(u, name) &&
           (zf_st_file_named(name) ? unshown_st_holds(u->st, name)
                                   : zf_torch_set_holds(u->st, name, u->lim));
}

/* Likewise for a directory.  Of each DCP save something should be shown. */
static bool unshown_dir(struct unshown *u, const char *name, bool alike)
{
    char dir[ZF_NAME_MAX + 2];

    (void)snprintf(dir, sizeof dir, "%s/", name);
    return (u->kind & UNSHOWN_SAVES) && !save_name_is_ignored(name) &&
           !zf_build_noted(u->b, save_name_is_step(name) ? name : dir) &&
           (unshown_is_dcp(u->st, name) || (!alike && unshown_has_weights(u, name)));
}

static bool unshown_is(struct unshown *u, const struct zf_entry *e)
{
    if (zf_sorted_has(&u->shown, unshown_print(e->name, false)))
        return false;
    bool alike = zf_sorted_has(&u->shown, unshown_print(e->name, true));

    return e->kind == ZF_ENTRY_FILE  ? unshown_file(u, e->name, alike)
           : e->kind == ZF_ENTRY_DIR ? unshown_dir(u, e->name, alike)
                                     : false;
}

static bool unshown_find_told(struct unshown *u, struct zf_err *err)
{
    for (struct zf_entries l = zf_store_entries(u->st, ""); l.e < l.end; l.e++)
        if (l.e->kind == ZF_ENTRY_FILE && unshown_is_named(l.e->name) &&
            !zf_sorted_has(&u->shown, unshown_print(l.e->name, false)) &&
            zf_build_noted(u->b, l.e->name) &&
            !zf_sorted_add(&u->told, unshown_print(l.e->name, true), err))
            return false;
    return true;
}

bool unshown_note(struct zf_store *st, enum unshown_kind kind, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err)
{
    struct unshown u = {.st = st, .lim = lim, .b = b, .kind = kind};
    zf_auto(out) struct zf_out names = {0};
    char list[160] = "", more[48] = "";
    size_t n = 0;

    if (!unshown_sources(st, b, &u.shown, err) || !unshown_find_told(&u, err)) {
        zf_sorted_fini(&u.shown);
        zf_sorted_fini(&u.told);
        return false;
    }
    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++) {
        if (!unshown_is(&u, l.e))
            continue;
        zf_note_about(&names, l.e->name);
        if (n++ < 2) {
            size_t at = strlen(list);

            zf_say(list + at, sizeof list - at, "%s%.60s%s", at ? ", " : "", l.e->name,
                   l.e->kind == ZF_ENTRY_DIR ? "/" : "");
        }
    }
    zf_sorted_fini(&u.shown);
    zf_sorted_fini(&u.told);
    if (n > 2)
        zf_say(more, sizeof more, " and %zu more", n - 2);
    return zf_out_ok(&names, err) &&
           (n == 0 ||
            zf_build_note_on(b, ZF_NOTE_UNSHOWN, zf_out_text(&names), err,
                             "%s%s %s not shown: %s of this checkpoint. Point at %s to see it",
                             list, more, n == 1 ? "is" : "are",
                             n == 1 ? "it is not part" : "they are not part",
                             n == 1 ? "it" : "one of them"));
}
