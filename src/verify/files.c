/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <stdio.h>

struct files_listing {
    struct files *f;
    struct zf_store *store;
    bool ok;
    struct zf_err *err;
};

/* Adds a file that was opened, and its directory. */
static void files_note(void *ctx, const struct zf_file_stats *s)
{
    struct files_listing *l = ctx;
    const char *path = zf_store_inside(l->store, s->path);
    const char *slash = path ? strrchr(path, '/') : NULL;

    l->ok =
        l->ok &&
        (!path || (zf_table_make_str(l->f->paths, path, l->err) &&
                   zf_table_make(l->f->dirs, path, slash ? (size_t)(slash - path) : 0, l->err)));
}

static bool files_add_unopened(struct files_listing *l, const struct files_path *dir,
                               const struct zf_entry *e)
{
    const size_t n = dir->hh.keylen;
    zf_auto(mem) char *path = NULL;
    const unsigned before = HASH_COUNT(l->f->paths);

    if (e->kind != ZF_ENTRY_FILE)
        return true;
    if (asprintf(&path, "%.*s%s%s", (int)n, (const char *)dir->hh.key, n ? "/" : "", e->name) < 0) {
        path = NULL;
        return zf_fail_sys(l->err, "list files");
    }
    struct files_path *p = zf_table_make_str(l->f->paths, path, l->err);
    if (p && HASH_COUNT(l->f->paths) > before)
        p->beside = true;
    return p != NULL;
}

bool files_init(struct files *f, struct zf_store *store, struct zf_err *err)
{
    struct files_listing l = {.f = f, .store = store, .ok = true, .err = err};

    *f = (struct files){.paths = NULL};
    zf_store_stats(store, files_note, &l);
    /* a user who names one file wants no others */
    for (struct files_path *d = zf_store_focus(store) ? NULL : f->dirs; d && l.ok; d = d->hh.next) {
        zf_auto(mem) char *dir = strndup(d->hh.key, d->hh.keylen);
        struct zf_entries e = {0};

        if (dir)
            e = zf_store_entries(store, dir);
        for (; e.e < e.end && l.ok; e.e++)
            l.ok = files_add_unopened(&l, d, e.e);
    }
    return l.ok;
}

void files_fini(struct files *f)
{
    zf_table_free(f->paths);
    zf_table_free(f->dirs);
}
