/* SPDX-License-Identifier: Apache-2.0 */
/* Shows each save of a run as a directory: calls for a save's inode numbers are passed to its tree (run_list.h). */
#include <zf/overlay/runs.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zf/base/path.h>
#include <zf/codec/json.h>
#include <zf/overlay/control.h>
#include <zf/overlay/index.h>

#include "current.h"
#include "run_list.h"

#define INO_LATEST 2

struct runs {
    struct zf_tree base;
    struct run_list l;
    struct current *current; /* fills the list; NULL: the list has all saves */
};

static struct runs *runs_of(struct zf_tree *t)
{
    return (struct runs *)t;
}

/* The open tree of the save that an inode number belongs to; *e_out keeps it alive.  NULL: the save is gone. */
static struct zf_tree *runs_tree_of(struct runs *t, uint64_t ino, struct run_entry **e_out,
                                    uint64_t *inner_out)
{
    *e_out = run_list_of(&t->l, ino, inner_out);
    return *e_out ? save_tree((*e_out)->save) : NULL;
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* The permission bits removed from a save's modes; before it is opened, those that its directory lacks. */
static uint16_t runs_withheld_from(const struct runs *t, const struct run_entry *e)
{
    struct zf_tree *tree = save_opened(e->save);
    struct zf_stat root;
    struct zf_err ignored;

    if (tree && tree->ops->stat(tree, ZF_TREE_ROOT, &root))
        return root.withheld;
    zf_auto(mem) char *path = zf_relpath_join(t->l.path, e->name, &ignored);
    return t->l.o.withheld(t->l.o.ctx, path ? path : "");
}

static bool runs_stat_save(const struct runs *t, const struct run_entry *e, struct zf_stat *out)
{
    *out = (struct zf_stat){.ino = RUN_LIST_OWN * e->serial,
                            .kind = ZF_NODE_DIR,
                            .nlink = 2,
                            .mtime = e->dir.mtime,
                            .live = true,
                            .moving = t->current != NULL,
                            .withheld = runs_withheld_from(t, e)};
    return true;
}

/* The save that `latest` refers to, with a reference, or NULL.  Called once per request, because it may change. */
static struct run_entry *runs_latest(struct runs *t)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&t->l.lock);
    return run_entry_ref(t->l.latest);
}

static bool runs_stat_latest(struct runs *t, struct zf_stat *out)
{
    zf_auto(run_entry) struct run_entry *e = runs_latest(t);

    *out = (struct zf_stat){.ino = INO_LATEST,
                            .kind = ZF_NODE_LINK,
                            .size = e ? strlen(e->file) : 0,
                            .nlink = 1,
                            .mtime = e ? e->dir.mtime : (struct timespec){.tv_sec = 0},
                            .live = true};
    return e != NULL;
}

static bool runs_lookup(struct zf_tree *base, uint64_t dir, const char *name, struct zf_stat *out)
{
    struct runs *t = runs_of(base);
    zf_auto(run_entry) struct run_entry *e = NULL;
    uint64_t inner;

    if (dir == ZF_TREE_ROOT && t->current) {
        e = strcmp(name, CURRENT) == 0 ? run_list_shown(&t->l) : NULL;
        return e && runs_stat_save(t, e, out);
    }
    if (dir == ZF_TREE_ROOT) {
        run_list_refresh(&t->l);
        e = run_list_by_name(&t->l, name);
        return e ? runs_stat_save(t, e, out)
                 : strcmp(name, "latest") == 0 && runs_stat_latest(t, out);
    }
    struct zf_tree *tree = runs_tree_of(t, dir, &e, &inner);
    if (!tree || !tree->ops->lookup(tree, inner, name, out))
        return false;
    out->ino = run_list_ino(&t->l, e, out->ino);
    return out->ino != 0;
}

static bool runs_stat_root(struct runs *t, struct zf_stat *out)
{
    struct stat st = {0};

    (void)stat(t->l.path, &st); /* the current state, unlike a store's listing */
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&t->l.lock);
    *out = (struct zf_stat){.ino = ZF_TREE_ROOT,
                            .kind = ZF_NODE_DIR,
                            .nlink = (uint32_t)(2 + t->l.list.n),
                            .mtime = st.st_mtim,
                            .live = true};
    return true;
}

static bool runs_stat(struct zf_tree *base, uint64_t ino, struct zf_stat *out)
{
    struct runs *t = runs_of(base);
    zf_auto(run_entry) struct run_entry *e = NULL;
    uint64_t inner;

    if (ino == ZF_TREE_ROOT)
        return runs_stat_root(t, out);
    if (ino == INO_LATEST)
        return runs_stat_latest(t, out);
    e = run_list_of(&t->l, ino, &inner);
    if (e && inner == ZF_TREE_ROOT)
        return runs_stat_save(t, e, out);
    struct zf_tree *tree = e ? save_tree(e->save) : NULL;
    if (!tree || !tree->ops->stat(tree, inner, out))
        return false;
    out->ino = ino;
    return true;
}

/* Entry `at` of the run. */
static bool runs_root_entry(struct runs *t, uint64_t at, char *name, struct zf_stat *out)
{
    if (at == 0 && !t->current)
        run_list_refresh(&t->l);
    (void)pthread_mutex_lock(&t->l.lock);
    const size_t n = t->l.list.n;
    zf_auto(run_entry) struct run_entry *e = run_entry_ref(at < n ? t->l.list.at[at] : NULL);
    (void)pthread_mutex_unlock(&t->l.lock);
    if (e) {
        (void)snprintf(name, 256, "%s", e->file);
        return runs_stat_save(t, e, out);
    }
    strcpy(name, "latest");
    return at == n && runs_stat_latest(t, out);
}

static bool runs_entry(struct zf_tree *base, uint64_t dir, uint64_t at, char *name,
                       struct zf_stat *out)
{
    struct runs *t = runs_of(base);
    zf_auto(run_entry) struct run_entry *e = NULL;
    uint64_t inner;

    if (dir == ZF_TREE_ROOT)
        return runs_root_entry(t, at, name, out);
    struct zf_tree *tree = runs_tree_of(t, dir, &e, &inner);
    if (!tree || !tree->ops->entry(tree, inner, at, name, out))
        return false;
    out->ino = run_list_ino(&t->l, e, out->ino);
    return out->ino != 0;
}

static bool runs_parent(struct zf_tree *base, uint64_t dir, uint64_t *out)
{
    struct runs *t = runs_of(base);
    zf_auto(run_entry) struct run_entry *e = NULL;
    uint64_t inner;

    *out = ZF_TREE_ROOT;
    if (dir == ZF_TREE_ROOT)
        return true;
    e = run_list_of(&t->l, dir, &inner);
    if (e && inner == ZF_TREE_ROOT)
        return true;
    struct zf_tree *tree = e ? save_tree(e->save) : NULL;
    if (!tree || !tree->ops->parent(tree, inner, out))
        return false;
    *out = run_list_ino(&t->l, e, *out);
    return *out != 0;
}

/* Opens a save when its directory is opened; stat(2) does not, so that `ls -l` of the run stays fast. */
static bool runs_enter(struct zf_tree *base, uint64_t dir, struct zf_err *err)
{
    uint64_t inner = 0;
    zf_auto(run_entry) struct run_entry *e = run_list_of(&runs_of(base)->l, dir, &inner);

    if (!e && dir >= RUN_LIST_OWN)
        return zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "the save was deleted or rewritten");
    return !e || inner != ZF_TREE_ROOT || save_enter(e->save, err);
}

/* Opens a save when a name in it is looked up. */
static bool runs_ready(struct zf_tree *base, uint64_t dir, const char *name, struct zf_err *err)
{
    uint64_t inner = 0;
    zf_auto(run_entry) struct run_entry *e =
        dir == ZF_TREE_ROOT ? NULL : run_list_of(&runs_of(base)->l, dir, &inner);
    struct zf_tree *tree = e ? save_opened(e->save) : NULL;

    return !tree || !tree->ops->ready || tree->ops->ready(tree, inner, name, err);
}

static bool runs_read(struct zf_tree *base, uint64_t ino, void *buf, size_t n, uint64_t off,
                      size_t *n_out, struct zf_err *err)
{
    zf_auto(run_entry) struct run_entry *e = NULL;
    uint64_t inner;
    struct zf_tree *tree = runs_tree_of(runs_of(base), ino, &e, &inner);

    *n_out = 0;
    if (!tree) {
        return zf_fail(err, ZF_E_STALE, ZF_OFF_NONE,
                       "the save of inode %llu was deleted or rewritten", (unsigned long long)ino);
    }
    return tree->ops->read(tree, inner, buf, n, off, n_out, err);
}

static void runs_want(struct zf_tree *base, uint64_t ino, uint64_t off, uint64_t n,
                      enum zf_prefetch how)
{
    zf_auto(run_entry) struct run_entry *e = NULL;
    uint64_t inner;
    struct zf_tree *tree = runs_tree_of(runs_of(base), ino, &e, &inner);

    if (tree && tree->ops->want)
        tree->ops->want(tree, inner, off, n, how);
}

static bool runs_readlink(struct zf_tree *base, uint64_t ino, char *buf, size_t n)
{
    zf_auto(run_entry) struct run_entry *e = ino == INO_LATEST ? runs_latest(runs_of(base)) : NULL;

    if (e)
        (void)snprintf(buf, n, "%s", e->file);
    return e != NULL;
}

static bool runs_xattr(struct zf_tree *base, uint64_t ino, size_t i, struct zf_xattr *out)
{
    zf_auto(run_entry) struct run_entry *e = NULL;
    uint64_t inner;
    struct zf_tree *tree = runs_tree_of(runs_of(base), ino, &e, &inner);

    return tree && tree->ops->xattr(tree, inner, i, out);
}

/* Of all saves the list alone decides which numbers lead somewhere. */
static bool runs_hold(struct zf_tree *base, uint64_t ino)
{
    struct runs *t = runs_of(base);

    return !t->current || run_list_hold(&t->l, ino);
}

static void runs_drop(struct zf_tree *base, uint64_t ino)
{
    struct runs *t = runs_of(base);

    if (t->current)
        run_list_drop(&t->l, ino);
}

/* Totals of the open saves only: df must not open every save. */
static void runs_totals(struct zf_tree *base, uint64_t *files, uint64_t *bytes)
{
    struct runs *t = runs_of(base);

    *files = *bytes = 0;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&t->l.lock);
    for (size_t k = 0; k < t->l.list.n; k++) {
        struct zf_tree *tree = save_opened(t->l.list.at[k]->save);
        uint64_t f, b;

        if (tree) {
            tree->ops->totals(tree, &f, &b);
            *files += f;
            *bytes += b;
        }
    }
}

static void runs_free(struct zf_tree *base)
{
    struct runs *t = runs_of(base);

    current_free(t->current);
    run_list_fini(&t->l);
    free(t);
}

static const struct zf_tree_ops ops = {
    .lookup = runs_lookup,
    .stat = runs_stat,
    .entry = runs_entry,
    .parent = runs_parent,
    .enter = runs_enter,
    .ready = runs_ready,
    .read = runs_read,
    .want = runs_want,
    .readlink = runs_readlink,
    .xattr = runs_xattr,
    .totals = runs_totals,
    .hold = runs_hold,
    .drop = runs_drop,
    .free = runs_free,
};

/* ---- the run's own control files ------------------------------------------------------------- */

static char *run_index(void *ctx, size_t *n_out, struct zf_err *err)
{
    struct runs *t = ctx;
    json_t *names = json_array();

    (void)pthread_mutex_lock(&t->l.lock);
    for (size_t k = 0; k < t->l.list.n; k++)
        (void)json_array_append_new(names, zf_json_text(t->l.list.at[k]->name));
    (void)pthread_mutex_unlock(&t->l.lock);
    return zf_index_dump(json_pack("{s:s, s:o}", "schema", "zerofs.run/1", "tags", names), n_out,
                         err);
}

static char *run_stats(void *ctx, size_t *n_out, struct zf_err *err)
{
    uint64_t files, bytes;

    runs_totals(ctx, &files, &bytes);
    return zf_index_dump(json_pack("{s:s, s:I, s:I}", "schema", "zerofs.run_stats/1", "open_files",
                                   (json_int_t)files, "open_bytes", (json_int_t)bytes),
                         n_out, err);
}

/* Makes an empty run. */
static struct runs *runs_new(const char *path, const struct zf_run_opts *o, struct zf_log *log,
                             struct zf_err *err)
{
    struct runs *t = calloc(1, sizeof *t);

    if (!t || !(t->l.path = strdup(path))) {
        free(t);
        return zf_null(zf_fail_sys(err, "list the saves"));
    }
    t->base.ops = &ops;
    t->base.follows = true;
    t->l.o = *o;
    t->l.log = log;
    (void)pthread_mutex_init(&t->l.lock, NULL);
    (void)pthread_mutex_init(&t->l.looking, NULL);
    return t;
}

struct zf_tree *zf_runs_tree(const char *path, const struct zf_run_opts *o, struct zf_log *log,
                             struct zf_err *err)
{
    struct runs *t = runs_new(path, o, log, err);

    if (!t)
        return NULL;
    if (!run_list_look(&t->l, err) ||
        (t->l.list.n == 0 &&
         !zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE, "there are no saves in this directory"))) {
        (void)zf_err_in(err, "%s", path);
        zf_tree_free(&t->base);
        return NULL;
    }
    struct zf_control_opts c = {.log = log, .index = run_index, .stats = run_stats, .ctx = t};
    return zf_control_new(&t->base, &c, err);
}

struct zf_tree *zf_current_tree(const char *path, const struct zf_run_opts *o, struct zf_log *log,
                                struct zf_err *err)
{
    struct runs *t = runs_new(path, o, log, err);
    struct zf_control_opts c = {
        .log = log, .index = run_index, .stats = run_stats, .ctx = t, .live = true};

    if (!t)
        return NULL;
    t->current = current_new(&t->l, err);
    if (!t->current) {
        zf_tree_free(&t->base);
        return NULL;
    }
    return zf_control_new(&t->base, &c, err);
}
