/* SPDX-License-Identifier: Apache-2.0 */
/* Checks again all that a store has opened and listed.
 *
 * A save that is replaced while it is opened would be read half old, half new, and each half alone
 * is valid.  So at the end every file is looked up once more by its path, and every directory with
 * an opened file is listed again: if all are unchanged since they were first seen, then all of them
 * existed together at one moment, between the last opening and the first of these checks.  Names
 * that were added or removed count as changes, too.  Directories that were only listed in search of
 * a save do not count, because a training run goes on writing there. */
#include <string.h>

#include <zf/base/ahead.h>
#include <zf/base/clock.h>
#include <zf/base/path.h>

#include "store_table.h"

void zf_store_stats(const struct zf_store *st, zf_file_stats_fn *fn, void *ctx)
{
    struct store_table *t = st->t;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&t->lock);
    store_kept_sort(&t->files);
    for (const struct kept *f = t->files; f; f = f->hh.next) {
        struct zf_identity id;
        struct zf_usage u = {0};

        if (f->making)
            continue;
        const struct zf_source_ops *ops = f->src->ops;
        u = ops->usage ? ops->usage(f->src) : u;
        fn(ctx, &(struct zf_file_stats){.path = f->path,
                                        .id = zf_source_identity(f->src, &id) ? &id : NULL,
                                        .size = f->src->size,
                                        .reads = u.reads,
                                        .bytes = u.bytes,
                                        .errors = u.errors});
    }
}

const char *zf_store_inside(const struct zf_store *st, const char *path)
{
    const char *below = zf_store_below(st);
    const size_t n = strlen(below);

    return n == 0 ? path : strncmp(path, below, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

static void look_newest(void *ctx, const struct zf_file_stats *s)
{
    struct timespec *newest = ctx;

    if (s->id && zf_clock_cmp(&s->id->mtime, newest) > 0)
        *newest = s->id->mtime;
}

struct timespec zf_store_mtime(const struct zf_store *st)
{
    struct timespec newest = {0};

    zf_store_stats(st, look_newest, &newest);
    return newest;
}

static bool store_look_being_written(const struct store_table *t, const char *path,
                                     const char *what, struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_STALE, ZF_OFF_NONE,
                  "the checkpoint is being written: this %s changed while it was opened", what);
    (void)zf_err_in(err, "%s", path);
    return t->shown[0] ? zf_err_in(err, "%s", t->shown) : false;
}

/* The files of a table, or its directories that count, sorted by path; malloc'ed.  The lock is held;
 * the entries may be used without it, because they are never removed. */
static struct kept **look_list(struct kept **table, size_t *n_out, struct zf_err *err)
{
    struct kept **list = calloc(HASH_COUNT(*table) + 1u, sizeof *list);
    size_t n = 0;

    if (!list)
        return zf_null(zf_fail_sys(err, "check the files again"));
    store_kept_sort(table);
    for (struct kept *k = *table; k; k = k->hh.next)
        if (!k->making && (k->src || k->counts || k->relied))
            list[n++] = k;
    *n_out = n;
    return list;
}

/* Marks the directory of a file as one to list again.  Listing it also checks files that were not
 * opened yet, except those for which the listing would need a request of their own. */
static void look_count(struct store_table *t, struct kept *f)
{
    const char *slash = strrchr(f->path, '/');
    struct kept *d = store_kept_find(t->dirs, f->path, slash ? (size_t)(slash - f->path) : 0);

    if (d)
        d->counts = true;
    if (d && f->known) {
        d->l.entry[f->known - d->l.entry].later = true;
        f->vouched = !f->known->asked || d->relied;
    }
    const bool opened = d && !f->known && t->ops->unchanged;
    struct zf_entry *e =
        opened ? listing_find(d->l.entry, d->l.n, slash ? slash + 1 : f->path) : NULL;
    if (e && e->exact) {
        e->later = true;
        f->vouched = e->asked && d->relied;
    }
}

/* Opens a file whose entry is too fresh to prove it later. */
static bool look_open_now(struct zf_store *st, const char *dir, const struct zf_entry *e,
                          struct zf_err *err)
{
    zf_auto(mem) char *path = zf_relpath_join(dir, e->name, err);
    zf_auto(source) struct zf_source *src = path ? zf_store_open(st, path, err) : NULL;

    return src != NULL;
}

bool zf_store_rely(struct zf_store *st, const char *dir, struct zf_err *err)
{
    struct kept *d = store_kept_dir(st, dir, err);

    for (size_t i = 0; d && i < d->l.n; i++) {
        const struct zf_entry *e = &d->l.entry[i];

        if (e->kind == ZF_ENTRY_FILE && e->fresh && !look_open_now(st, dir, e, err))
            return false;
    }
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&st->t->lock);
    for (size_t i = 0; d && i < d->l.n; i++)
        d->l.entry[i].later = d->l.entry[i].later || d->l.entry[i].kind == ZF_ENTRY_FILE;
    if (d)
        d->relied = true;
    return d != NULL;
}

/* Do both have the same name and, for a file to be opened later, the same identity? */
static bool look_same_entry(const struct zf_entry *x, const struct zf_entry *y, bool names_do)
{
    return x->kind == y->kind && strcmp(x->name, y->name) == 0 &&
           (!x->later || (names_do && x->asked && y->asked) ||
            memcmp(&x->id, &y->id, sizeof x->id) == 0);
}

static bool look_same_sorted(const struct zf_listing *a, const struct zf_listing *b)
{
    bool same = a->n == b->n;

    for (size_t i = 0; same && i < a->n; i++)
        same = look_same_entry(&a->entry[i], &b->entry[i], b->names_do);
    return same;
}

/* b is not sorted yet.  An unchanged directory is nearly always read in the same order, so the order of a's reading is
 * tried first. */
static bool look_same_entries(const struct zf_listing *a, struct zf_listing *b)
{
    zf_auto(mem) uint32_t *sorted = a->n == b->n ? calloc(a->n + 1, sizeof *sorted) : NULL;
    bool same = sorted != NULL;

    for (size_t i = 0; same && i < a->n; i++)
        sorted[a->entry[i].place] = (uint32_t)i;
    for (size_t i = 0; same && i < b->n; i++)
        same = look_same_entry(&a->entry[sorted[i]], &b->entry[i], b->names_do);
    if (!same)
        listing_sort(b);
    return same || look_same_sorted(a, b);
}

static bool look_at_dir(struct store_table *t, const struct kept *d, struct zf_err *err)
{
    struct zf_listing now;
    bool same;

    if (!listing_read(t, d->path, d, &now, err)) {
        /* A failed request to a server says nothing about the directory. */
        return t->ops->unchanged && err->code == ZF_E_IO
                   ? false
                   : store_look_being_written(t, d->path, "directory", err);
    }
    same = look_same_entries(&d->l, &now);
    listing_fini(&now);
    return same || store_look_being_written(t, d->path, "directory", err);
}

static bool look_at_file(struct store_table *t, const struct kept *f, struct zf_err *err)
{
    const struct zf_source_ops *ops = f->src->ops;

    return f->known || !ops->unchanged || ops->unchanged(f->src, err) ||
           store_look_being_written(t, f->path, "file", err);
}

/* The final check of a store's files and directories. */
struct look {
    struct store_table *t;
    struct kept **file, **dir;
    size_t n_files, n_dirs;
    size_t row; /* number of files that a thread checks in a row */
    bool slow;  /* zf_store_is_slow */
};

static void *look_dir(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct look *l = ctx;

    return look_at_dir(l->t, l->dir[i], err) ? ctx : NULL;
}

/* Lists the directories in several threads, since they may have many entries. */
static bool look_at_dirs(struct look *l, struct zf_err *err)
{
    const struct zf_ahead_work work = {
        .make = look_dir, .ctx = l, .most = l->t->ops->ahead, .slow = l->slow};

    return zf_ahead_all(work, l->n_dirs, err);
}

/* Number of files that a thread checks in a row. */
#define LOOK_ROW 8u

static void *look_row(void *ctx, uint64_t row, struct zf_err *err)
{
    const struct look *l = ctx;

    for (size_t i = row * l->row; i < (row + 1) * l->row && i < l->n_files; i++)
        if (!look_at_file(l->t, l->file[i], err))
            return NULL;
    return ctx;
}

static bool look_at_rows(struct look *l, struct zf_err *err)
{
    const struct zf_ahead_work work = {
        .make = look_row, .ctx = l, .most = l->t->ops->ahead, .slow = l->slow};

    return zf_ahead_all(work, l->n_files / l->row + (l->n_files % l->row != 0), err);
}

/* Checks all files in one call, for kinds of stores that can. */
static bool look_at_files(const struct look *l, struct zf_err *err)
{
    zf_auto(mem) struct zf_source **src = calloc(l->n_files + 1, sizeof(struct zf_source *));
    zf_auto(mem) size_t *at = calloc(l->n_files + 1, sizeof(size_t));
    size_t some = 0, bad = 0;

    if (!src || !at)
        return zf_fail_sys(err, "check the files again");
    for (size_t i = 0; i < l->n_files; i++) {
        if (!l->file[i]->vouched) {
            src[some] = l->file[i]->src;
            at[some++] = i;
        }
    }
    if (l->t->ops->unchanged(l->t->self, src, some, &bad, err))
        return true;
    /* A request that failed proves nothing about the file. */
    return err->code == ZF_E_STALE || err->code == ZF_E_NOENT
               ? store_look_being_written(l->t, l->file[at[bad]]->path, "file", err)
               : false;
}

/* For remote stores: files and directories are checked at the same time. */
static void *look_half(void *ctx, uint64_t i, struct zf_err *err)
{
    return (i ? look_at_dirs(ctx, err) : look_at_files(ctx, err)) ? ctx : NULL;
}

bool zf_store_unchanged(struct zf_store *st, struct zf_err *err)
{
    struct store_table *t = st->t;
    struct look l = {.t = t, .slow = zf_store_is_slow(st)};

    (void)pthread_mutex_lock(&t->lock);
    zf_auto(mem) struct kept **file = look_list(&t->files, &l.n_files, err);
    for (size_t i = 0; i < l.n_files; i++)
        look_count(t, file[i]);
    zf_auto(mem) struct kept **dir = file ? look_list(&t->dirs, &l.n_dirs, err) : NULL;
    (void)pthread_mutex_unlock(&t->lock);
    l.file = file;
    l.dir = dir;
    l.row = l.slow ? 1 : LOOK_ROW;
    if (dir && t->ops->unchanged)
        return zf_ahead_all((struct zf_ahead_work){.make = look_half, .ctx = &l}, 2, err);
    return dir && look_at_rows(&l, err) && look_at_dirs(&l, err);
}

/* ---- failures ---------------------------------------------------------------------------------- */

uint64_t zf_store_failures(struct zf_store *st)
{
    return failures_met(st->t->failures);
}

bool zf_store_failure(struct zf_store *st, uint64_t since, size_t i, struct zf_err *out)
{
    return failures_get(st->t->failures, since, i, out);
}

size_t zf_store_failures_since(struct zf_store *st, uint64_t since)
{
    return failures_count(st->t->failures, since);
}

void zf_store_forget_failures(struct zf_store *st, uint64_t since)
{
    failures_forget(st->t->failures, since);
}
