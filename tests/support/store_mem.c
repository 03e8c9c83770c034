/* SPDX-License-Identifier: Apache-2.0 */
/* A handful of files, searched one by one. */
#include "store_mem.h"

#include <stdio.h>
#include <string.h>

#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/source/store_kind.h>

struct store_mem_file {
    char *path;
    struct zf_source *src;
};

struct store_mem_tree {
    zf_vec(struct store_mem_file) file;
    const struct zf_store *store;
    struct store_mem_tree *prev, *next;
};

/* All there are, so that one can be found by its store; one thread at a time makes and fills them. */
static struct store_mem_tree *store_mem_trees;

/* What follows "dir/" in path, or NULL when it does not lie in dir. */
static const char *store_mem_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    if (n == 0)
        return path;
    return strncmp(path, dir, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

static bool store_mem_has_dir(const struct store_mem_tree *t, const char *dir)
{
    for (size_t i = 0; i < t->file.n; i++)
        if (store_mem_below(t->file.at[i].path, dir))
            return true;
    return dir[0] == '\0';
}

static bool store_mem_listed(const struct zf_listing *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->entry[i].name, name) == 0)
            return true;
    return false;
}

static bool mem_list(void *self, const char *dir, struct zf_listing *l, struct zf_err *err)
{
    const struct store_mem_tree *t = self;

    if (!store_mem_has_dir(t, dir))
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "there is no such directory");
    for (size_t i = 0; i < t->file.n; i++) {
        const char *rest = store_mem_below(t->file.at[i].path, dir);
        size_t len = rest ? strcspn(rest, "/") : 0;
        zf_auto(mem) char *name = rest ? strndup(rest, len) : NULL;

        if (rest && !name)
            return zf_fail_sys(err, "keep a listing");
        if (!rest || store_mem_listed(l, name))
            continue;
        struct zf_entry e = {.name = name, .kind = rest[len] ? ZF_ENTRY_DIR : ZF_ENTRY_FILE};
        e.id.size = e.kind == ZF_ENTRY_FILE ? t->file.at[i].src->size : 0;
        e.what = e.kind == ZF_ENTRY_FILE ? "a file" : "a directory";
        if (!zf_listing_add(l, &e, err))
            return false;
    }
    return true;
}

static struct zf_source *mem_open(void *self, const char *path, const char *name,
                                  const struct zf_entry *known, struct zf_err *err)
{
    const struct store_mem_tree *t = self;

    (void)name;
    (void)known;
    for (size_t i = 0; i < t->file.n; i++)
        if (strcmp(t->file.at[i].path, path) == 0)
            return zf_source_ref(t->file.at[i].src);
    if (store_mem_has_dir(t, path))
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "this is a directory, not a file");
    else
        (void)zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "there is no such file");
    return NULL;
}

static char *mem_base(void *self, const char *dir, struct zf_err *err)
{
    const char *slash = strrchr(dir, '/');

    if (!store_mem_has_dir(self, dir)) {
        (void)zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "there is no such directory");
        return NULL;
    }
    char *base = strdup(slash ? slash + 1 : dir);
    if (!base)
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    return base;
}

static void mem_fini(void *self)
{
    struct store_mem_tree *t = self;

    for (size_t i = 0; i < t->file.n; i++) {
        free(t->file.at[i].path);
        zf_source_unref(&t->file.at[i].src);
    }
    zf_vec_fini(&t->file);
    DL_DELETE(store_mem_trees, t);
    free(t);
}

static const struct zf_store_ops mem_ops = {
    .list = mem_list,
    .open = mem_open,
    .base = mem_base,
    .fini = mem_fini,
};

struct zf_store *store_mem_new(const struct zf_limits *lim, struct zf_err *err)
{
    struct store_mem_tree *t = calloc(1, sizeof *t);

    if (!t) {
        (void)zf_fail_sys(err, "make a store");
        return NULL;
    }
    DL_APPEND(store_mem_trees, t);
    struct zf_store *st =
        zf_store_new(&mem_ops, t, (struct zf_store_look){.name = "", .shown = ""}, lim, err);
    if (st)
        t->store = st;
    return st;
}

/* A source with a copy of p. */
static struct zf_source *store_mem_copy_of(const char *path, const void *p, uint64_t n,
                                           struct zf_err *err)
{
    void *copy = n < SIZE_MAX ? malloc((size_t)n + 1) : NULL;

    if (!copy) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    if (n)
        memcpy(copy, p, (size_t)n);
    struct zf_source *src = zf_mem_new(path, copy, n, true, err);
    if (!src)
        free(copy);
    return src;
}

bool store_mem_add(struct zf_store *st, const char *path, const void *p, uint64_t n,
                   struct zf_err *err)
{
    struct store_mem_tree *t = store_mem_trees;

    while (t && t->store != st)
        t = t->next;
    if (!t)
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "this store is not in memory");
    if (!zf_vec_room(&t->file, 1, err))
        return false;
    zf_auto(source) struct zf_source *src = store_mem_copy_of(path, p, n, err);
    char *name = src ? strdup(path) : NULL;
    if (!name)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    t->file.at[t->file.n++] = (struct store_mem_file){.path = name, .src = zf_source_ref(src)};
    return true;
}
