/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files ahead, in threads, that will be needed one after the other at a round trip or two each.  The store keeps
 * the open files; a failure is reported by the later, regular opening.  Only a few dozen are opened ahead: most FUSE file
 * systems cache attributes for a second only, and would be asked for them again after that. */
#include <stdlib.h>
#include <string.h>

#include <zf/base/ahead.h>
#include <zf/base/path.h>
#include <zf/base/vec.h>
#include <zf/source/begun.h>
#include <zf/source/store.h>

struct zf_expect {
    struct zf_store *st;
    void (*begin)(struct zf_source *src); /* or NULL */
    zf_vec(char *) path;
    size_t next; /* the results of path[0, next) have been taken */
    struct zf_ahead *ahead;
};

static void *expect_open(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct zf_expect *x = ctx;
    struct zf_source *src = zf_store_open(x->st, x->path.at[i], err);

    if (src && x->begin && !zf_store_is_far(x->st))
        x->begin(src);
    if (src && !x->begin) /* opening it is the slow part */
        zf_begun_count(&src->begun);
    return src;
}

static void expect_drop(void *made)
{
    struct zf_source *src = made;

    zf_source_unref(&src);
}

/* Takes path, which may be NULL. */
static bool expect_push(struct zf_expect *x, char *path)
{
    struct zf_err ignored;
    char **to = path ? zf_vec_push(&x->path, &ignored) : NULL;

    if (!to) {
        free(path);
        return false;
    }
    *to = path;
    return true;
}

static struct zf_expect *expect_new(struct zf_store *st, void (*begin)(struct zf_source *src))
{
    struct zf_expect *x = NULL;

    if ((zf_store_is_far(st) || zf_store_is_slow(st)) && (x = calloc(1, sizeof *x)) != NULL) {
        x->st = zf_store_ref(st);
        x->begin = begin;
    }
    return x;
}

/* NULL: opening ahead gains nothing here, and x is freed. */
static struct zf_expect *expect_start(struct zf_expect *x, bool ok)
{
    struct zf_err ignored;
    const bool far = zf_store_is_far(x->st);
    const struct zf_ahead_work work = {.make = expect_open,
                                       .drop = expect_drop,
                                       .ctx = x,
                                       .most = zf_store_ahead(x->st),
                                       .few = far ? ZF_AHEAD_FAR : 0,
                                       .slow = !far};

    x->ahead = ok && x->path.n > 1 ? zf_ahead_new(work, x->path.n, &ignored) : NULL;
    if (!x->ahead) {
        zf_expect_free(x);
        return NULL;
    }
    return x;
}

struct zf_expect *zf_store_expect(struct zf_store *st, const char *const *path, size_t n,
                                  void (*begin)(struct zf_source *src))
{
    struct zf_expect *x = expect_new(st, begin);
    bool ok = true;

    zf_store_announce(st, path, n);
    for (size_t i = 0; x && ok && i < n; i++)
        ok = expect_push(x, strdup(path[i]));
    return x ? expect_start(x, ok) : NULL;
}

struct zf_expect *zf_store_expect_in(struct zf_store *st, const char *dir,
                                     bool (*is)(const char *name),
                                     void (*begin)(struct zf_source *src))
{
    struct zf_expect *x = expect_new(st, begin);
    bool ok = true;
    struct zf_err ignored;

    for (struct zf_entries l = x ? zf_store_entries(st, dir) : (struct zf_entries){0};
         ok && l.e < l.end; l.e++)
        if (l.e->kind == ZF_ENTRY_FILE && is(l.e->name))
            ok = expect_push(x, zf_relpath_join(dir, l.e->name, &ignored));
    if (x)
        zf_store_announce(st, (const char *const *)x->path.at, x->path.n);
    return x ? expect_start(x, ok) : NULL;
}

void zf_expect_reach(struct zf_expect *x, const char *path)
{
    struct zf_err ignored;
    size_t i = x ? x->next : 0;

    while (x && i < x->path.n && strcmp(x->path.at[i], path) != 0)
        i++;
    for (; x && i < x->path.n && x->next <= i; x->next++)
        expect_drop(zf_ahead_take(x->ahead, &ignored));
}

void zf_expect_all(struct zf_expect *x)
{
    if (x)
        zf_expect_reach(x, x->path.at[x->path.n - 1]);
}

void zf_expect_free(struct zf_expect *x)
{
    if (!x)
        return;
    zf_ahead_free(x->ahead);
    for (size_t i = 0; i < x->path.n; i++)
        free(x->path.at[i]);
    zf_vec_fini(&x->path);
    zf_store_unref(&x->st);
    free(x);
}
