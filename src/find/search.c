/* SPDX-License-Identifier: Apache-2.0 */
/* Directories are searched one depth after the other; all saves of the first depth that has any are
 * the answer.  Directories that turn out to be the parts of one save (model/, optim/) count as the
 * directory that they lie in. */
#include "search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "saves.h"

/* At most so many steps down (experiment / run / checkpoint-60), in so many directories of one
 * depth. */
enum { SEARCH_DEPTH = 3, SEARCH_DIRS = 128 };

struct search_dirs {
    char *path[SEARCH_DIRS];
    size_t n;
};

static void zf_auto_search_dirs(struct search_dirs *d)
{
    for (size_t i = 0; i < d->n; i++) {
        free(d->path[i]);
    }
    d->n = 0;
}

/* Adds the directories inside `dir`; one that cannot be listed has none. */
static bool search_children(struct zf_store *st, const char *dir, struct search_dirs *out,
                            struct zf_err *err)
{
    struct zf_err ignored = {.code = ZF_OK};
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, &ignored)) {
        return true;
    }
    for (size_t i = 0; i < n && out->n < SEARCH_DIRS; i++) {
        if (e[i].kind != ZF_ENTRY_DIR || e[i].name[0] == '.') {
            continue;
        }
        if (asprintf(&out->path[out->n], "%s%s%s", dir, *dir ? "/" : "", e[i].name) < 0) {
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        }
        if (saves_is_twin(st, out->path[out->n])) {
            free(out->path[out->n]);
        } else {
            out->n++;
        }
    }
    return true;
}

/* Adds the saves in `dir`, or dir itself when they are its parts. */
static bool search_in(struct zf_store *st, const char *dir, const struct zf_limits *lim,
                      struct zf_saves *out, struct zf_err *err)
{
    zf_auto(saves) struct zf_saves s = {.name = NULL};
    struct zf_err ignored = {.code = ZF_OK};

    if (!saves_below(st, dir, lim, &s, &ignored)) {
        return true;
    }
    if (s.n > 1 && saves_are_parts(&s)) {
        return saves_add(out, dir, err);
    }
    for (size_t i = 0; i < s.n; i++) {
        if (!saves_add(out, s.name[i], err)) {
            return false;
        }
    }
    out->weak += s.weak;
    return true;
}

bool search_saves(struct zf_store *st, const struct zf_limits *lim, struct zf_saves *out,
                  struct zf_err *err)
{
    zf_auto(search_dirs) struct search_dirs now = {.n = 0};

    if (!saves_below(st, "", lim, out, err)) {
        return false;
    }
    if (out->n == 0 && !search_children(st, "", &now, err)) {
        return false;
    }
    for (int depth = 1; depth < SEARCH_DEPTH && now.n && out->n == 0; depth++) {
        zf_auto(search_dirs) struct search_dirs next = {.n = 0};

        for (size_t i = 0; i < now.n; i++) {
            if (!search_in(st, now.path[i], lim, out, err) ||
                !search_children(st, now.path[i], &next, err)) {
                zf_saves_free(out);
                return false;
            }
        }
        struct search_dirs swap = now;
        now = next;
        next = swap;
    }
    return true;
}
