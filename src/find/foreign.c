/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes what zerofs cannot read; foreign.def has one row per format.  A directory is matched by the
 * names in it, its files also by their first or last bytes; the first matching row of the table wins.
 * Subdirectories follow, breadth first. */
#include "foreign.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/assemble/torch_files.h>
#include <zf/base/path.h>

#include "save_name.h"

/* Limits of the search after nothing else was found: directories, entries of each, subdirectories listed for a pattern
 * with a slash, bytes of a magic number. */
enum { FOREIGN_DIRS = 64, FOREIGN_ENTRIES = 256, FOREIGN_INSIDE = 32, FOREIGN_MAGIC = 32 };

enum foreign_kind { FOREIGN_ENTRY, FOREIGN_SAVE, FOREIGN_WHOLE, FOREIGN_HEAD, FOREIGN_BYTES };

struct foreign {
    enum foreign_kind kind;
    const char *glob;
    int at; /* offset of the bytes; negative: from the end */
    unsigned n;
    const char *bytes, *mask; /* mask: "" = all bits */
    const char *what, *hint;
};

#define ENTRY(glob, what, hint) {FOREIGN_ENTRY, glob, 0, 0, "", "", what, hint},
#define SAVE(glob, what, hint) {FOREIGN_SAVE, glob, 0, 0, "", "", what, hint},
#define WHOLE(glob, what, hint) {FOREIGN_WHOLE, glob, 0, 0, "", "", what, hint},
#define HEAD(glob, at, bytes, what, hint)                                                          \
    {FOREIGN_HEAD, glob, at, sizeof(bytes) - 1, bytes, "", what, hint},
#define MAGIC(glob, at, bytes, mask, what, hint)                                                   \
    {FOREIGN_BYTES, glob, at, sizeof(bytes) - 1, bytes, mask, what, hint},
static const struct foreign foreign_table[] = {
#include "foreign.def"
};
#undef ENTRY
#undef SAVE
#undef WHOLE
#undef HEAD
#undef MAGIC
enum { N_FOREIGN = sizeof foreign_table / sizeof foreign_table[0] };

/* Files without which a checkpoint cannot be opened: a link to a missing one is reported. */
static const char *const foreign_weights[] = {
    "*.safetensors", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.gguf", "*.distcp", "*.json", NULL};

/* ---- one file or directory ------------------------------------------------------------------- */

static bool foreign_bytes(const struct foreign *f, struct zf_source *src)
{
    unsigned char head[FOREIGN_MAGIC];
    struct zf_err ignored = {.code = ZF_OK};
    uint64_t back = f->at < 0 ? (uint64_t) - (int64_t)f->at : 0;

    if (src->size < back + f->n || (f->at >= 0 && src->size < (uint64_t)f->at + f->n))
        return false;
    if (!zf_source_pread(src, head, f->n, f->at < 0 ? src->size - back : (uint64_t)f->at, &ignored))
        return false;
    for (unsigned i = 0; i < f->n; i++) {
        unsigned char mask = f->mask[0] ? (unsigned char)f->mask[i] : 0xff;

        if ((head[i] & mask) != ((unsigned char)f->bytes[i] & mask))
            return false;
    }
    return true;
}

/* Matches a pattern "DIR" "/name": a directory DIR with an entry `name`.  Only for DIR "*" are all directories listed,
 * which costs a request each in a remote store. */
static bool foreign_inside(struct zf_store *st, const struct zf_entry *e, size_t n,
                           const char *glob)
{
    const char *name = strchr(glob, '/') + 1;
    const size_t len = (size_t)(name - 1 - glob);

    for (size_t i = 0, seen = 0; i < n && seen < FOREIGN_INSIDE; i++) {
        struct zf_err ignored = {.code = ZF_OK};
        bool named = strncmp(e[i].name, glob, len) == 0 && e[i].name[len] == '\0';

        if (e[i].kind != ZF_ENTRY_DIR || (*glob != '*' && !named))
            continue;
        zf_auto(mem) char *path = zf_relpath_join(e[i].name, name, &ignored);
        if (path && zf_store_find(st, path))
            return true;
        seen++;
    }
    return false;
}

/* The first row that matches the file `name`. */
static const struct foreign *foreign_file(struct zf_store *st, const char *name)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(source) struct zf_source *src = zf_store_open(st, name, &ignored);

    if (zf_torch_set_sniff(st, name))
        zf_source_unref(&src); /* zerofs can read it: do not match its bytes */
    for (size_t i = 0; i < N_FOREIGN; i++) {
        const struct foreign *f = &foreign_table[i];

        if (fnmatch(f->glob, name, 0) == 0 &&
            (f->kind < FOREIGN_HEAD || (src && foreign_bytes(f, src))))
            return f;
    }
    return NULL;
}

/* Fails with the row's message.  name: the entry by which it was recognized, or NULL. */
static bool foreign_fail(const struct foreign *f, const char *name, struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "this is %s, which zerofs does not read%s%s",
                  f->what, f->hint[0] ? "; " : "", f->hint);
    if (name)
        (void)zf_err_in(err, "%s", name);
    return true;
}

/* Likewise for something found while searching for a checkpoint. */
static bool foreign_refuse_found(const struct foreign *f, const char *dir, const char *name,
                                 struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                  "there is no checkpoint here; %.80s%s%.80s is %s, which zerofs does not read%s%s",
                  dir, *dir ? "/" : "", name, f->what, f->hint[0] ? "; " : "", f->hint);
    return true;
}

/* ---- one directory --------------------------------------------------------------------------- */

/* Does a row for whole directories match an entry? */
static bool foreign_entry(const struct foreign *f, struct zf_store *st, const struct zf_entry *e)
{
    struct zf_err ignored = {.code = ZF_OK};

    if (fnmatch(f->glob, e->name, 0) != 0)
        return false;
    zf_auto(source) struct zf_source *src =
        f->kind == FOREIGN_HEAD ? zf_store_open(st, e->name, &ignored) : NULL;
    return f->kind != FOREIGN_HEAD || (src && foreign_bytes(f, src));
}

/* Fills *err with the first row for whole directories that matches st's root.  whole: only rows that are tried
 * before the families; only: match this file alone, without listing, or NULL.  False: none matches. */
static bool foreign_refuse(struct zf_store *st, bool whole, const char *only, struct zf_err *err)
{
    const struct zf_entry one = {.name = only, .kind = ZF_ENTRY_FILE};
    const struct zf_entries l =
        only ? (struct zf_entries){&one, &one + 1} : zf_store_entries(st, "");
    const size_t n = (size_t)(l.end - l.e);

    for (size_t i = 0; i < N_FOREIGN; i++) {
        const struct foreign *f = &foreign_table[i];
        bool first = f->kind == FOREIGN_WHOLE || f->kind == FOREIGN_HEAD;

        if (!first && (whole || f->kind != FOREIGN_SAVE))
            continue;
        if (strchr(f->glob, '/')) {
            if (foreign_inside(st, l.e, n, f->glob))
                return foreign_fail(f, NULL, err);
            continue;
        }
        for (size_t k = 0; k < n && k < FOREIGN_ENTRIES; k++)
            if (foreign_entry(f, st, &l.e[k]))
                return foreign_fail(f, l.e[k].name, err);
    }
    return false;
}

bool foreign_save(struct zf_store *st, struct zf_err *err)
{
    return foreign_refuse(st, false, NULL, err);
}

bool foreign_whole(struct zf_store *st, const char *file, struct zf_err *err)
{
    /* In a remote store the directory is not listed for a single file. */
    return foreign_refuse(st, true, zf_store_is_far(st) ? file : NULL, err);
}

/* Refuses a link in a Hugging Face cache whose blob was not downloaded, or was removed. */
static bool foreign_dangling(struct zf_store *st, const char *name, struct zf_err *err)
{
    struct zf_err why = {.code = ZF_OK};

    if (!save_name_fits(name, foreign_weights, 0))
        return false;
    zf_auto(source) struct zf_source *src = zf_store_open(st, name, &why);
    if (src || why.sys != ENOENT)
        return false;
    (void)zf_fail(
        err, ZF_E_FORMAT, ZF_OFF_NONE,
        "this is a link to a missing file (an incomplete download, or a cache that was cleaned)");
    (void)zf_err_in(err, "%s", name);
    return true;
}

/* The first row of the table that matches a file of st's root; *where_out: the file's name. */
static const struct foreign *foreign_best(struct zf_store *st, const struct zf_entry *e, size_t n,
                                          const char **where_out)
{
    const struct foreign *best = NULL;

    for (size_t i = 0; i < n && i < FOREIGN_ENTRIES; i++) {
        const struct foreign *f = e[i].kind == ZF_ENTRY_FILE ? foreign_file(st, e[i].name) : NULL;

        if (f && (!best || f < best)) {
            best = f;
            *where_out = e[i].name;
        }
    }
    return best;
}

/* Examines one directory: st, which is `dir` below the path that the user gave. */
static bool foreign_look(struct zf_store *st, const char *dir, struct zf_err *err)
{
    struct zf_err ignored = {.code = ZF_OK};
    const struct zf_entry *e;
    const char *where = NULL, *pointer = zf_lfs_find(st, NULL);
    size_t n;

    if (pointer) {
        (void)zf_lfs_fail(err);
        (void)zf_err_in(err, "%s%s%s", dir, *dir ? "/" : "", pointer);
        return true;
    }
    if (foreign_save(st, err))
        return !*dir || !zf_err_in(err, "%s", dir);
    if (!zf_store_list(st, "", &e, &n, &ignored))
        return false;
    for (size_t i = 0; i < n && i < FOREIGN_ENTRIES; i++)
        if (e[i].kind == ZF_ENTRY_OTHER && foreign_dangling(st, e[i].name, err))
            return !*dir || !zf_err_in(err, "%s", dir);
    const struct foreign *best = foreign_best(st, e, n, &where);
    return best && foreign_refuse_found(best, dir, where, err);
}

/* ---- subdirectories -------------------------------------------------------------------------- */

/* Queues the directories in `dir`, a path from st. */
static void foreign_push(struct zf_store *st, const char *dir, char **queue, size_t *n_queue)
{
    struct zf_err ignored = {.code = ZF_OK};

    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) {
        if (l.e->kind == ZF_ENTRY_DIR && *n_queue < FOREIGN_DIRS) {
            queue[*n_queue] = zf_relpath_join(dir, l.e->name, &ignored);
            *n_queue += queue[*n_queue] != NULL;
        }
    }
}

bool foreign_find(struct zf_store *st, const char *only, struct zf_err *err)
{
    char *queue[FOREIGN_DIRS] = {NULL};
    size_t n = 0;

    if (only) {
        const struct foreign *f = foreign_file(st, only);
        return f && foreign_fail(f, only, err);
    }
    bool found = foreign_look(st, "", err);
    if (!found)
        foreign_push(st, "", queue, &n);
    for (size_t i = 0; i < n; i++) {
        struct zf_err ignored = {.code = ZF_OK};
        zf_auto(store) struct zf_store *sub = found ? NULL : zf_store_sub(st, queue[i], &ignored);

        if (sub && foreign_look(sub, queue[i], err))
            found = true;
        else if (sub)
            foreign_push(st, queue[i], queue, &n);
        free(queue[i]);
    }
    return found;
}
