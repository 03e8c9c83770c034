/* SPDX-License-Identifier: Apache-2.0 */
/* The saves nearest below a directory, found one depth after the other: all saves of the first
 * depth that has any.  Directories that turn out to be the parts of one save (model/, optim/)
 * count as the save that they are parts of. */
#include <stdio.h>
#include <string.h>

#include <zf/find/saves.h>

/* At most so many steps down (experiment / run / checkpoint-60), in so many directories of one
 * depth. */
enum { NEAREST_DEPTH = 3, NEAREST_DIRS = 128 };

struct nearest_dirs {
    char *path[NEAREST_DIRS];
    size_t n;
};

static void zf_auto_nearest_dirs(struct nearest_dirs *d)
{
    for (size_t i = 0; i < d->n; i++) {
        free(d->path[i]);
    }
    d->n = 0;
}

/* Adds the directories inside `dir`; what cannot be listed has none. */
static bool nearest_children(struct zf_store *st, const char *dir, struct nearest_dirs *out,
                             struct zf_err *err)
{
    struct zf_err ignored = {.code = ZF_OK};
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, &ignored)) {
        return true;
    }
    for (size_t i = 0; i < n && out->n < NEAREST_DIRS; i++) {
        if (e[i].kind != ZF_ENTRY_DIR || e[i].name[0] == '.') {
            continue;
        }
        if (asprintf(&out->path[out->n], "%s%s%s", dir, *dir ? "/" : "", e[i].name) < 0) {
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        }
        if (zf_tags_is_twin(st, out->path[out->n])) {
            free(out->path[out->n]);
        } else {
            out->n++;
        }
    }
    return true;
}

/* Moves what is in `from` to the end of `to`. */
static bool nearest_append(struct zf_tags *to, struct zf_tags *from, struct zf_err *err)
{
    char **more = realloc(to->name, (to->n + from->n + 1) * sizeof *more);

    if (!more) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    to->name = more;
    memcpy(to->name + to->n, from->name, from->n * sizeof *more);
    to->n += from->n;
    to->weak += from->weak;
    from->n = 0;
    return true;
}

/* The saves in `dir`, or dir itself when they are its parts. */
static bool nearest_in(struct zf_store *st, const char *dir, const struct zf_limits *lim,
                       struct zf_tags *out, struct zf_err *err)
{
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    struct zf_err ignored = {.code = ZF_OK};

    if (!zf_tags_below(st, dir, lim, &t, &ignored) || t.n == 0) {
        return true;
    }
    if (t.n > 1 && zf_tags_are_parts(&t)) {
        char *whole = strdup(dir);

        if (!whole) {
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        }
        zf_tags_free(&t);
        t.name = malloc(sizeof *t.name);
        if (!t.name) {
            free(whole);
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        }
        t.name[t.n++] = whole;
    }
    return nearest_append(out, &t, err);
}

bool zf_tags_nearest(struct zf_store *st, const struct zf_limits *lim, struct zf_tags *out,
                     struct zf_err *err)
{
    zf_auto(nearest_dirs) struct nearest_dirs now = {.n = 0};

    if (!zf_tags_below(st, "", lim, out, err)) {
        return false;
    }
    if (out->n == 0 && !nearest_children(st, "", &now, err)) {
        return false;
    }
    for (int depth = 1; depth < NEAREST_DEPTH && now.n && out->n == 0; depth++) {
        zf_auto(nearest_dirs) struct nearest_dirs next = {.n = 0};

        for (size_t i = 0; i < now.n; i++) {
            if (!nearest_in(st, now.path[i], lim, out, err) ||
                !nearest_children(st, now.path[i], &next, err)) {
                zf_tags_free(out);
                return false;
            }
        }
        struct nearest_dirs swap = now;
        now = next;
        next = swap;
    }
    return true;
}
