/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the files of a save whose structure cannot be read, for checks that do not need it. */
#include "beside.h"

#include <zf/base/auto.h>
#include <zf/base/path.h>
#include <zf/base/vec.h>

#include "save_name.h"

#define BARE_SUMS "integrity.json"
/* The most directories that are listed. */
enum { BARE_DIRS = 4096 };

struct bare_dir {
    char *path;        /* owned */
    uint64_t dev, ino; /* ino = 0: unknown */
};

/* The directories found so far, from the save's own on. */
struct bare {
    zf_vec(struct bare_dir) dir;
    bool more; /* there are others than BARE_DIRS */
};

static void zf_auto_bare(struct bare *w)
{
    for (size_t i = 0; i < w->dir.n; i++)
        free(w->dir.at[i].path);
    zf_vec_fini(&w->dir);
}

/* Was the directory found before?  A link to a directory above it would lead to each file again and again. */
static bool bare_has(const struct bare *w, const struct zf_identity *id)
{
    for (size_t i = 0; id->ino && i < w->dir.n; i++)
        if (w->dir.at[i].ino == id->ino && w->dir.at[i].dev == id->dev)
            return true;
    return false;
}

/* Opens a file, or adds a directory to the list.  A file that cannot be opened is left out: verify reports the files in
 * the directories of opened ones. */
static bool bare_entry(struct bare *w, struct zf_store *st, const char *dir,
                       const struct zf_entry *e, struct zf_err *err)
{
    zf_auto(mem) char *path = zf_relpath_join(dir, e->name, err);
    struct zf_err why;

    if (!path)
        return false;
    if (e->kind == ZF_ENTRY_DIR) {
        if (save_name_is_ignored(e->name) || bare_has(w, &e->id))
            return true;
        w->more = w->more || w->dir.n == BARE_DIRS;
        struct bare_dir *to = w->more ? NULL : zf_vec_push(&w->dir, err);

        if (to)
            *to = (struct bare_dir){zf_give(path), e->id.dev, e->id.ino};
        return w->more || to;
    }
    zf_auto(source) struct zf_source *src =
        e->kind == ZF_ENTRY_FILE ? zf_store_open(st, path, &why) : NULL;
    return true;
}

bool bare_open(const struct zf_save *save, struct zf_build *b, struct zf_err *err)
{
    zf_auto(bare) struct bare w = {.dir = {0}};
    struct zf_store *const st = save->store;
    struct zf_err why = {.code = ZF_OK};

    if (save->file) {
        zf_auto(source) struct zf_source *src = zf_store_open(st, save->file, err);
        return src != NULL;
    }
    struct bare_dir *root = zf_vec_push(&w.dir, err);
    if (!root || !((*root = (struct bare_dir){.path = strdup("")}).path))
        return root && zf_fail_sys(err, "list files");
    for (size_t i = 0; i < w.dir.n; i++)
        for (struct zf_entries l = zf_store_entries(st, w.dir.at[i].path); l.e < l.end; l.e++)
            if (!bare_entry(&w, st, w.dir.at[i].path, l.e, err))
                return false;
    if (w.more && !zf_build_note(b, err,
                                 "there are more than %d directories; the files in the others are "
                                 "not checked",
                                 BARE_DIRS))
        return false;
    if (!zf_store_has(st, BARE_SUMS, ZF_ENTRY_FILE))
        return true;
    zf_auto(source) struct zf_source *sums = zf_store_open(st, BARE_SUMS, &why);
    return !sums || zf_build_blob(b, "state/" BARE_SUMS, sums, 0, sums->size, err);
}
