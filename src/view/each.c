/* SPDX-License-Identifier: Apache-2.0 */
/* Visits directories with a stack, without recursion, because an untrusted file may nest names to any
 * depth. */
#include <zf/each.h>

#include <string.h>

#include <zf/base/glob.h>
#include <zf/base/nearest.h>
#include <zf/base/path.h>
#include <zf/base/vec.h>
#include <zf/view.h>

/* Is it a directory that only shows the same tensors in another form?  hf/ itself consists of such files. */
static bool each_is_presentation(const char *dir, const char *name)
{
    static const char *const names[] = {"npy", "as", "hf", "model.safetensors",
                                        "pytorch_model.bin"};
    const char *slash = strrchr(dir, '/');

    if (strcmp(slash ? slash + 1 : dir, "hf") == 0)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Directories still to be listed; paths are malloc'ed. */
struct todo {
    zf_vec(char *);
};

static bool each_push(struct todo *todo, const char *dir, struct zf_err *err)
{
    char **path = zf_vec_push(todo, err);

    return path && ((*path = strdup(dir)) ||
                    zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the listing"));
}

static void each_drop(struct todo *todo)
{
    while (todo->n > 0)
        free(todo->at[--todo->n]);
    zf_vec_fini(todo);
}

/* Reverses the entries from `first` on: a stack returns the last one first, but listings should be in order. */
static void each_turn(struct todo *todo, size_t first)
{
    for (size_t i = first, j = todo->n; i + 1 < j; i++, j--) {
        char *p = todo->at[i];

        todo->at[i] = todo->at[j - 1];
        todo->at[j - 1] = p;
    }
}

/* Does a listing of all files omit this entry of `dir`? */
static bool each_skips(const struct zf_each *e, const char *dir, const char *name)
{
    return !e->all && each_is_presentation(dir, name);
}

/* Checks that dir can be entered: otherwise it would be listed as empty. */
static bool each_enters(struct zf_tree *tree, uint64_t dir, struct zf_err *err)
{
    return !tree->ops->enter || tree->ops->enter(tree, dir, err);
}

/* Lists files first, then subdirectories, so that a set is contiguous. */
static bool each_list(const struct zf_each *e, struct todo *todo, const char *dir,
                      struct zf_err *err)
{
    size_t first = todo->n;
    char name[256];
    struct zf_stat d, st;

    if (!zf_tree_walk(e->tree, dir, &d) || d.kind != ZF_NODE_DIR)
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "no such directory in this checkpoint");
    if (!each_enters(e->tree, d.ino, err))
        return zf_err_in(err, "%s", dir);
    for (uint64_t at = 0; e->tree->ops->entry(e->tree, d.ino, at, name, &st); at++) {
        if (each_skips(e, dir, name))
            continue;
        zf_auto(mem) char *path = zf_relpath_join(dir, name, err);

        if (!path || (st.kind == ZF_NODE_DIR && !each_push(todo, path, err)))
            return false;
        if (st.kind == ZF_NODE_DIR ? e->dir && !e->dir(e->ctx, path, &st, err)
                                   : !e->file(e->ctx, path, &st, err))
            return false;
    }
    each_turn(todo, first);
    return true;
}

bool zf_each_file(const struct zf_each *e, const char *dir, struct zf_err *err)
{
    struct todo todo = {0};
    bool ok = each_push(&todo, dir, err);

    while (ok && todo.n > 0) {
        zf_auto(mem) char *path = todo.at[--todo.n];

        ok = each_list(e, &todo, path, err);
    }
    each_drop(&todo);
    return ok;
}

bool zf_each_entry(const struct zf_each *e, const char *dir, struct zf_err *err)
{
    struct zf_each one = *e;
    struct todo below = {0};

    one.all = true;
    bool ok = each_list(&one, &below, dir, err);
    each_drop(&below);
    return ok;
}

/* ---- missing paths -------------------------------------------------------------------------------- */

static bool each_offer(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err)
{
    (void)st, (void)err;
    zf_nearest_offer(ctx, path);
    return true;
}

/* Can all existing directories that lead to `path` be entered? */
static bool each_leads_to(struct zf_tree *tree, const char *path, struct zf_err *err)
{
    struct zf_stat st;

    for (size_t n = 0; path[n]; n += path[n] == '/') {
        zf_auto(mem) char *dir = strndup(path, n);

        if (!dir)
            return zf_fail_sys(err, "look for a file");
        if (!zf_tree_walk(tree, dir, &st) || st.kind != ZF_NODE_DIR)
            return true;
        if (!each_enters(tree, st.ino, err))
            return false;
        n += strcspn(path + n, "/");
    }
    return true;
}

/* Fills *err (ZF_E_NOENT): there is no `path`; names the most similar ones. */
static bool each_missing(struct zf_tree *tree, const char *path, struct zf_err *err)
{
    zf_auto(nearest) struct zf_nearest near = {.want = path};
    struct zf_each every = {.tree = tree, .file = each_offer, .dir = each_offer, .ctx = &near};
    struct zf_err ignored;
    char hint[256];

    if (!each_leads_to(tree, path, err))
        return false;
    zf_tree_list_all(tree);
    bool ok = zf_each_file(&every, "", &ignored);
    if (ok && near.n == 0) {
        every.all = true;
        ok = zf_each_file(&every, "", &ignored);
    }
    (void)zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "no such file in this checkpoint%s",
                  ok ? zf_nearest_text(&near, hint, sizeof hint) : "");
    return zf_err_in(err, "%s", path);
}

/* ---- patterns ----------------------------------------------------------------------------------- */

struct matching {
    const struct zf_each *e;
    const char *pattern;
    uint64_t n;
};

static bool each_match_file(void *ctx, const char *path, const struct zf_stat *st,
                            struct zf_err *err)
{
    struct matching *m = ctx;

    if (!zf_glob_match(m->pattern, path))
        return true;
    m->n++;
    return m->e->file(m->e->ctx, path, st, err);
}

static bool each_match_dir(void *ctx, const char *path, const struct zf_stat *st,
                           struct zf_err *err)
{
    struct matching *m = ctx;

    if (!m->e->dir || !zf_glob_match(m->pattern, path))
        return true;
    m->n++;
    return m->e->dir(m->e->ctx, path, st, err);
}

bool zf_each_match(const struct zf_each *e, const char *pattern, struct zf_err *err)
{
    struct matching m = {.e = e, .pattern = pattern};
    struct zf_each every = {
        .tree = e->tree, .all = e->all, .file = each_match_file, .dir = each_match_dir, .ctx = &m};

    if (!zf_glob_is_pattern(pattern))
        return each_missing(e->tree, pattern, err);
    bool ok = zf_each_file(&every, "", err);
    if (ok && m.n == 0) {
        zf_tree_list_all(e->tree);
        every.all = true;
        ok = zf_each_file(&every, "", err);
    }
    if (ok && m.n == 0) {
        (void)zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "no file in this checkpoint matches");
        return zf_err_in(err, "%s", pattern);
    }
    return ok;
}

char *zf_each_normal(const char *path)
{
    char *out = malloc(strlen(path) + 2), *at = out;

    if (!out)
        return NULL;
    for (;;) {
        path += strspn(path, "/");
        size_t n = strcspn(path, "/");
        if (n == 0)
            break;
        if (n != 1 || path[0] != '.') {
            memcpy(at, path, n);
            at += n;
            *at++ = '/';
        }
        path += n;
    }
    at -= at > out;
    *at = '\0';
    return out;
}
