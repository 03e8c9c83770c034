/* SPDX-License-Identifier: Apache-2.0 */
#include "each.h"

#include <stdio.h>
#include <string.h>

/* What only shows the same tensors in another way.  hf/ itself is made of such files. */
static bool is_presentation(const char *dir, const char *name)
{
    static const char *const names[] = {"npy", "as", "hf", "model.safetensors",
                                        "pytorch_model.bin"};
    const char *slash = strrchr(dir, '/');

    if (strcmp(slash ? slash + 1 : dir, "hf") == 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Directories still to be listed; paths are malloc'ed. */
struct todo {
    char **path;
    size_t n;
};

static bool push(struct todo *todo, const char *dir)
{
    char **path = realloc(todo->path, (todo->n + 1) * sizeof *path);

    if (!path) {
        return false;
    }
    todo->path = path;
    todo->path[todo->n] = strdup(dir);
    return todo->path[todo->n] && ++todo->n;
}

/* Malloc'ed: names may nest further than any fixed length. */
static char *join(const char *dir, const char *name)
{
    char *path;

    return asprintf(&path, "%s%s%s", dir, *dir ? "/" : "", name) < 0 ? NULL : path;
}

/* A stack gives the last one first; listings read better the other way. */
static void turn(struct todo *todo, size_t first)
{
    for (size_t i = first, j = todo->n; i + 1 < j; i++, j--) {
        char *p = todo->path[i];

        todo->path[i] = todo->path[j - 1];
        todo->path[j - 1] = p;
    }
}

/* Files first, then what is below, so that a set stands in one piece. */
static bool list(const struct each *e, struct todo *todo, const char *dir, struct zf_err *err)
{
    size_t first = todo->n;
    char name[256];
    struct zf_stat d, st;

    if (!zf_tree_walk(e->tree, dir, &d) || d.kind != ZF_NODE_DIR) {
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "no such directory in this checkpoint");
    }
    for (uint64_t at = 0; e->tree->ops->entry(e->tree, d.ino, at, name, &st); at++) {
        if (!e->all && is_presentation(dir, name)) {
            continue;
        }
        zf_auto(mem) char *path = join(dir, name);

        if (!path || (st.kind == ZF_NODE_DIR && !push(todo, path))) {
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the listing");
        }
        if (st.kind != ZF_NODE_DIR && !e->file(e->ctx, path, &st, err)) {
            return false;
        }
    }
    turn(todo, first);
    return true;
}

bool each_file(const struct each *e, const char *dir, struct zf_err *err)
{
    struct todo todo = {0};
    bool ok =
        push(&todo, dir) || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the listing");

    while (ok && todo.n > 0) {
        zf_auto(mem) char *path = todo.path[--todo.n];

        ok = list(e, &todo, path, err);
    }
    while (todo.n > 0) {
        free(todo.path[--todo.n]);
    }
    free(todo.path);
    return ok;
}
