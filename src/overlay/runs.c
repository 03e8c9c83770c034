/* SPDX-License-Identifier: Apache-2.0 */
/* A directory a save.  A number in the upper bits of an inode number says which save, the rest is
 * the inode number in that save's own tree, so that questions below a save are passed on by
 * arithmetic.  Saves are only ever added to the table, which lookups read without a lock; one that
 * vanishes is no longer listed but keeps its number. */
#include <zf/overlay/runs.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <zf/base/name.h>
#include <zf/base/path.h>
#include <zf/codec/json.h>
#include <zf/find.h>
#include <zf/overlay/control.h>
#include <zf/overlay/index.h>

#include "save.h"

/* An inode number is (save + 1) << SHIFT | the number inside; the root's own are below 1 << SHIFT.
 * A tree's own numbers stay below 2^51 (zf_tree_new sees to it), and the top bit is the
 * control files'. */
#define SHIFT 52
#define INNER ((1ull << SHIFT) - 1)
#define MAX_SAVES 2046
#define INO_LATEST 2
/* The run directory is looked at this often. */
#define FRESH_SECONDS 1

struct run_entry {
    char *name;
    char file[ZF_NAME_MAX + 1]; /* the name as one component: it may hold a slash */
    atomic_bool listed;
    struct timespec mtime; /* of its directory, when it was first seen */
    struct save *save;
};

struct runs {
    struct zf_tree base;
    char *path;
    struct zf_run_opts o;
    struct zf_log *log;
    pthread_mutex_t lock; /* of all below */
    time_t looked;
    struct run_entry *entry[MAX_SAVES]; /* only ever grows; a save never moves once it is here */
    _Atomic uint32_t n;
    _Atomic uint32_t latest; /* UINT32_MAX = none */
};

static struct runs *runs_of(struct zf_tree *t)
{
    return (struct runs *)t;
}

/* ---- which saves there are ------------------------------------------------------------------- */

/* The number of the save of that name, or of that file name; all there are when there is none. */
static uint32_t runs_find(const struct runs *t, const char *name, bool file)
{
    uint32_t n = atomic_load_explicit(&t->n, memory_order_acquire), i = 0;

    while (i < n && strcmp(file ? t->entry[i]->file : t->entry[i]->name, name) != 0) {
        i++;
    }
    return i;
}

static bool runs_add(struct runs *t, struct zf_store *st, const char *name, struct zf_err *err)
{
    const struct zf_entry *dir = zf_store_find(st, name);
    uint32_t n = atomic_load_explicit(&t->n, memory_order_relaxed);
    struct run_entry *entry = n < MAX_SAVES ? calloc(1, sizeof *entry) : NULL;

    if (!entry || !(entry->name = strdup(name))) {
        free(entry);
        return zf_fail(err, n < MAX_SAVES ? ZF_E_NOMEM : ZF_E_LIMIT, ZF_OFF_NONE,
                       "cannot show more than %u saves", n);
    }
    entry->save = save_new(t->path, name, &t->o, t->log, err);
    if (!entry->save) {
        free(entry->name);
        free(entry);
        return false;
    }
    (void)zf_name_encode(entry->file, name, strlen(name), "");
    entry->mtime = dir ? dir->id.mtime : entry->mtime;
    t->entry[n] = entry;
    atomic_store_explicit(&t->n, n + 1, memory_order_release);
    return true;
}

static bool runs_take_list(struct runs *t, struct zf_store *st, const struct zf_saves *list,
                           struct zf_err *err)
{
    bool there[MAX_SAVES] = {false};

    for (size_t i = 0; i < list->n; i++) {
        uint32_t k = runs_find(t, list->name[i], false);

        if (k == t->n && !runs_add(t, st, list->name[i], err)) {
            return false;
        }
        there[k] = true;
    }
    /* Each is set once: a listing that is being read never sees a save vanish and come back. */
    for (uint32_t i = 0; i < t->n; i++) {
        t->entry[i]->listed = there[i];
    }
    t->latest = list->latest < list->n ? runs_find(t, list->name[list->latest], false) : UINT32_MAX;
    return true;
}

/* Under the lock.  A new store each time: a store's listing never changes. */
static bool runs_look(struct runs *t, struct zf_err *err)
{
    zf_auto(store) struct zf_store *st = zf_store_by(t->o.opener, t->path, t->o.lim, err);
    struct zf_saves list = {0};

    if (!st || !zf_saves_list(st, t->o.lim, &list, err)) {
        return false;
    }
    bool ok = runs_take_list(t, st, &list, err);
    zf_saves_free(&list);
    return ok;
}

static void runs_refresh(struct runs *t)
{
    struct timespec now;
    struct zf_err err;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)pthread_mutex_lock(&t->lock);
    if (now.tv_sec - t->looked >= FRESH_SECONDS) {
        t->looked = now.tv_sec;
        if (!runs_look(t, &err)) {
            zf_log_say(t->log, &err);
        }
    }
    (void)pthread_mutex_unlock(&t->lock);
}

/* ---- inode numbers --------------------------------------------------------------------------- */

/* The control files' numbers have the top bit inside; here they move to the top of the
 * save's range. */
static uint64_t runs_outer_ino(uint32_t k, uint64_t ino)
{
    uint64_t low = ino >> 63 ? (1ull << (SHIFT - 1)) | (ino & 0xff) : ino;

    return (uint64_t)(k + 1) << SHIFT | (low & INNER);
}

static uint64_t runs_inner_ino(uint64_t ino)
{
    uint64_t low = ino & INNER;

    return low >> (SHIFT - 1) ? 1ull << 63 | (low & 0xff) : low;
}

/* The tree of the save that an inode number belongs to, opened; NULL for the root's own. */
static struct zf_tree *runs_tree_of(struct runs *t, uint64_t ino, uint32_t *k_out,
                                    uint64_t *inner_out)
{
    uint64_t k = ino >> SHIFT;

    if (k == 0 || k > atomic_load_explicit(&t->n, memory_order_acquire)) {
        return NULL;
    }
    *k_out = (uint32_t)(k - 1);
    *inner_out = runs_inner_ino(ino);
    return save_tree(t->entry[k - 1]->save);
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* A save that was not opened yet is as closed as its directory. */
static uint16_t runs_withheld_from(const struct runs *t, uint32_t k)
{
    struct zf_tree *tree = save_opened(t->entry[k]->save);
    struct zf_stat root;
    struct zf_err ignored;

    if (tree && tree->ops->stat(tree, ZF_TREE_ROOT, &root)) {
        return root.withheld;
    }
    zf_auto(mem) char *path = zf_relpath_join(t->path, t->entry[k]->name, &ignored);
    return t->o.withheld(t->o.ctx, path ? path : "");
}

static bool runs_stat_save(const struct runs *t, uint32_t k, struct zf_stat *out)
{
    *out = (struct zf_stat){.ino = runs_outer_ino(k, ZF_TREE_ROOT),
                            .kind = ZF_NODE_DIR,
                            .nlink = 2,
                            .mtime = t->entry[k]->mtime,
                            .live = true,
                            .withheld = runs_withheld_from(t, k)};
    return true;
}

/* The save that `latest` leads to, or NULL.  Asked once a call: it may change meanwhile. */
static const struct run_entry *runs_latest(const struct runs *t)
{
    uint32_t k = t->latest;

    return k < t->n ? t->entry[k] : NULL;
}

static bool runs_stat_latest(const struct runs *t, struct zf_stat *out)
{
    const struct run_entry *entry = runs_latest(t);

    *out = (struct zf_stat){.ino = INO_LATEST,
                            .kind = ZF_NODE_LINK,
                            .size = entry ? strlen(entry->file) : 0,
                            .nlink = 1,
                            .mtime = entry ? entry->mtime : (struct timespec){.tv_sec = 0},
                            .live = true};
    return entry != NULL;
}

static bool runs_lookup(struct zf_tree *base, uint64_t dir, const char *name, struct zf_stat *out)
{
    struct runs *t = runs_of(base);
    uint32_t k;
    uint64_t inner;

    if (dir == ZF_TREE_ROOT) {
        runs_refresh(t);
        k = runs_find(t, name, true);
        return k < t->n ? runs_stat_save(t, k, out)
                        : strcmp(name, "latest") == 0 && runs_stat_latest(t, out);
    }
    struct zf_tree *tree = runs_tree_of(t, dir, &k, &inner);
    if (!tree || !tree->ops->lookup(tree, inner, name, out)) {
        return false;
    }
    out->ino = runs_outer_ino(k, out->ino);
    return true;
}

static bool runs_stat(struct zf_tree *base, uint64_t ino, struct zf_stat *out)
{
    struct runs *t = runs_of(base);
    uint32_t k;
    uint64_t inner;

    if (ino == ZF_TREE_ROOT) {
        struct stat st = {0};

        (void)stat(t->path, &st); /* now, unlike a store's listing */
        *out = (struct zf_stat){
            .ino = ino, .kind = ZF_NODE_DIR, .nlink = 2 + t->n, .mtime = st.st_mtim, .live = true};
        return true;
    }
    if (ino == INO_LATEST) {
        return runs_stat_latest(t, out);
    }
    if (runs_inner_ino(ino) == ZF_TREE_ROOT && ino >> SHIFT <= t->n) {
        return runs_stat_save(t, (uint32_t)(ino >> SHIFT) - 1, out);
    }
    struct zf_tree *tree = runs_tree_of(t, ino, &k, &inner);
    if (!tree || !tree->ops->stat(tree, inner, out)) {
        return false;
    }
    out->ino = ino;
    return true;
}

static bool runs_entry(struct zf_tree *base, uint64_t dir, uint64_t at, char *name,
                       struct zf_stat *out)
{
    struct runs *t = runs_of(base);
    uint32_t k;
    uint64_t inner;

    if (dir != ZF_TREE_ROOT) {
        struct zf_tree *tree = runs_tree_of(t, dir, &k, &inner);

        if (!tree || !tree->ops->entry(tree, inner, at, name, out)) {
            return false;
        }
        out->ino = runs_outer_ino(k, out->ino);
        return true;
    }
    if (at == 0) {
        runs_refresh(t);
    }
    for (k = 0; k < t->n; k++) {
        if (t->entry[k]->listed && at-- == 0) {
            (void)snprintf(name, 256, "%s", t->entry[k]->file);
            return runs_stat_save(t, k, out);
        }
    }
    strcpy(name, "latest");
    return at == 0 && runs_stat_latest(t, out);
}

static bool runs_parent(struct zf_tree *base, uint64_t dir, uint64_t *out)
{
    struct runs *t = runs_of(base);
    uint32_t k;
    uint64_t inner;

    *out = ZF_TREE_ROOT;
    if (dir == ZF_TREE_ROOT || runs_inner_ino(dir) == ZF_TREE_ROOT) {
        return true;
    }
    struct zf_tree *tree = runs_tree_of(t, dir, &k, &inner);
    if (!tree || !tree->ops->parent(tree, inner, out)) {
        return false;
    }
    *out = runs_outer_ino(k, *out);
    return true;
}

/* stat(2) of a save opens nothing, so that `ls -l` of the run stays quick; looking into it does. */
static bool runs_enter(struct zf_tree *base, uint64_t dir, struct zf_err *err)
{
    struct runs *t = runs_of(base);
    uint64_t k = dir >> SHIFT;

    if (k == 0 || k > atomic_load_explicit(&t->n, memory_order_acquire) ||
        runs_inner_ino(dir) != ZF_TREE_ROOT) {
        return true;
    }
    return save_enter(t->entry[k - 1]->save, err);
}

static bool runs_read(struct zf_tree *base, uint64_t ino, void *buf, size_t n, uint64_t off,
                      size_t *n_out, struct zf_err *err)
{
    uint32_t k;
    uint64_t inner;
    struct zf_tree *tree = runs_tree_of(runs_of(base), ino, &k, &inner);

    *n_out = 0;
    if (!tree) {
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "no file has inode %llu",
                       (unsigned long long)ino);
    }
    return tree->ops->read(tree, inner, buf, n, off, n_out, err);
}

static void runs_want(struct zf_tree *base, uint64_t ino, uint64_t off, uint64_t n,
                      enum zf_soon how)
{
    uint32_t k;
    uint64_t inner;
    struct zf_tree *tree = runs_tree_of(runs_of(base), ino, &k, &inner);

    if (tree && tree->ops->want) {
        tree->ops->want(tree, inner, off, n, how);
    }
}

static bool runs_readlink(struct zf_tree *base, uint64_t ino, char *buf, size_t n)
{
    const struct run_entry *entry = ino == INO_LATEST ? runs_latest(runs_of(base)) : NULL;

    if (entry) {
        (void)snprintf(buf, n, "%s", entry->file);
    }
    return entry != NULL;
}

static bool runs_xattr(struct zf_tree *base, uint64_t ino, size_t i, struct zf_xattr *out)
{
    uint32_t k;
    uint64_t inner;
    struct zf_tree *tree = runs_tree_of(runs_of(base), ino, &k, &inner);

    return tree && tree->ops->xattr(tree, inner, i, out);
}

/* Only what was opened: df must not open every save. */
static void runs_totals(struct zf_tree *base, uint64_t *files, uint64_t *bytes)
{
    struct runs *t = runs_of(base);

    *files = *bytes = 0;
    for (uint32_t k = 0; k < t->n; k++) {
        struct zf_tree *tree = save_opened(t->entry[k]->save);
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

    for (uint32_t k = 0; k < t->n; k++) {
        save_free(t->entry[k]->save);
        free(t->entry[k]->name);
        free(t->entry[k]);
    }
    (void)pthread_mutex_destroy(&t->lock);
    free(t->path);
    free(t);
}

static const struct zf_tree_ops ops = {
    .lookup = runs_lookup,
    .stat = runs_stat,
    .entry = runs_entry,
    .parent = runs_parent,
    .enter = runs_enter,
    .read = runs_read,
    .want = runs_want,
    .readlink = runs_readlink,
    .xattr = runs_xattr,
    .totals = runs_totals,
    .free = runs_free,
};

/* ---- the run's own control files ------------------------------------------------------------- */

static char *run_index(void *ctx, size_t *n_out, struct zf_err *err)
{
    struct runs *t = ctx;
    json_t *names = json_array();

    for (uint32_t k = 0; k < t->n; k++) {
        (void)json_array_append_new(names, zf_json_text(t->entry[k]->name));
    }
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

struct zf_tree *zf_runs_tree(const char *path, const struct zf_run_opts *o, struct zf_log *log,
                             struct zf_err *err)
{
    struct runs *t = calloc(1, sizeof *t);

    if (!t || !(t->path = strdup(path))) {
        free(t);
        (void)zf_fail_sys(err, "list the saves");
        return NULL;
    }
    t->base.ops = &ops;
    t->o = *o;
    t->log = log;
    t->latest = UINT32_MAX;
    (void)pthread_mutex_init(&t->lock, NULL);
    if (!runs_look(t, err) ||
        (t->n == 0 && !zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE, "no save is in this directory"))) {
        (void)zf_err_in(err, "%s", path);
        zf_tree_free(&t->base);
        return NULL;
    }
    struct zf_control_opts c = {.log = log, .index = run_index, .stats = run_stats, .ctx = t};
    return zf_control_new(&t->base, &c, err);
}
