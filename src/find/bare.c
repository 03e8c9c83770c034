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

/* The directories found so far, from the save's own on; each is owned. */
struct bare {
    zf_vec(char *) dir;
};

static void zf_auto_bare(struct bare *w)
{
    for (size_t i = 0; i < w->dir.n; i++)
        free(w->dir.at[i]);
    zf_vec_fini(&w->dir);
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
    if (e->kind == ZF_ENTRY_DIR && !save_name_is_ignored(e->name) && w->dir.n < BARE_DIRS) {
        char **to = zf_vec_push(&w->dir, err);

        if (to)
            *to = zf_give(path);
        return to != NULL;
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
    char **root = zf_vec_push(&w.dir, err);
    if (!root || !(*root = strdup("")))
        return root && zf_fail_sys(err, "list files");
    for (size_t i = 0; i < w.dir.n; i++)
        for (struct zf_entries l = zf_store_entries(st, w.dir.at[i]); l.e < l.end; l.e++)
            if (!bare_entry(&w, st, w.dir.at[i], l.e, err))
                return false;
    if (!zf_store_has(st, BARE_SUMS, ZF_ENTRY_FILE))
        return true;
    zf_auto(source) struct zf_source *sums = zf_store_open(st, BARE_SUMS, &why);
    return !sums || zf_build_blob(b, "state/" BARE_SUMS, sums, 0, sums->size, err);
}
