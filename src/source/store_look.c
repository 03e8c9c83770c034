/* SPDX-License-Identifier: Apache-2.0 */
/* A look back at what a store has opened and listed.
 *
 * A save that is replaced while it is opened would be read half old, half new, and each half alone
 * is sound.  So when all is read every file is looked up once more by its path, and every directory
 * in which one was opened: if all are what they were when they were first met, then they all were
 * that at one moment, the one between the last opening and the first of these looks.  Names that
 * came or went count as well; directories that were only looked into on the way to a save do
 * not, because a run that is training goes on writing there. */
#include <string.h>

#include "file.h"
#include "store_table.h"

struct timespec zf_store_mtime(const struct zf_store *st)
{
    struct timespec newest = {0}, t;
    struct zf_file_stats s;
    struct zf_opened *f, *next;

    (void)pthread_mutex_lock(&st->t->lock);
    HASH_ITER(hh, st->t->files, f, next)
    {
        if (zf_file_stats_get(f->src, &s, &t) &&
            (t.tv_sec > newest.tv_sec ||
             (t.tv_sec == newest.tv_sec && t.tv_nsec > newest.tv_nsec))) {
            newest = t;
        }
    }
    (void)pthread_mutex_unlock(&st->t->lock);
    return newest;
}

void zf_store_stats(struct zf_store *st, void (*fn)(void *ctx, const struct zf_file_stats *),
                    void *ctx)
{
    struct zf_opened *f, *next;
    struct timespec t;

    (void)pthread_mutex_lock(&st->t->lock);
    HASH_ITER(hh, st->t->files, f, next)
    {
        struct zf_file_stats s = {.size = f->src->size};

        (void)zf_file_stats_get(f->src, &s, &t);
        s.path = f->path;
        fn(ctx, &s);
    }
    (void)pthread_mutex_unlock(&st->t->lock);
}

void zf_store_identities(struct zf_store *st,
                         void (*fn)(void *ctx, const char *path, const struct zf_identity *id),
                         void *ctx)
{
    struct zf_opened *f, *next;
    struct zf_identity id;

    (void)pthread_mutex_lock(&st->t->lock);
    HASH_ITER(hh, st->t->files, f, next)
    {
        if (zf_source_identity(f->src, &id)) {
            fn(ctx, f->path, &id);
        }
    }
    (void)pthread_mutex_unlock(&st->t->lock);
}

static bool being_written(const struct zf_table *t, const char *path, const char *what,
                          struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_STALE, ZF_OFF_NONE,
                  "the checkpoint is being written: this %s changed while it was opened", what);
    (void)zf_err_in(err, "%s", path);
    return t->shown[0] ? zf_err_in(err, "%s", t->shown) : false;
}

static void look_count(struct zf_table *t, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct zf_listed *d = NULL;

    HASH_FIND(hh, t->dirs, path, slash ? (size_t)(slash - path) : 0, d);
    if (d) {
        d->counts = true;
    }
}

static bool same_names(const struct zf_listing *a, const struct zf_listing *b)
{
    bool same = a->n == b->n;

    for (size_t i = 0; same && i < a->n; i++) {
        same =
            a->entry[i].kind == b->entry[i].kind && strcmp(a->entry[i].name, b->entry[i].name) == 0;
    }
    return same;
}

static bool look_at_dir(struct zf_table *t, const struct zf_listed *d, struct zf_err *err)
{
    struct zf_listing now;
    bool same;

    if (!zf_listing_read(t, d->path, &now, err)) {
        return being_written(t, d->path, "directory", err);
    }
    same = same_names(&d->l, &now);
    zf_listing_fini(&now);
    return same || being_written(t, d->path, "directory", err);
}

bool zf_store_unchanged(struct zf_store *st, struct zf_err *err)
{
    struct zf_table *t = st->t;
    struct zf_opened *f, *next_file;
    struct zf_listed *d, *next_dir;
    bool ok = true;

    (void)pthread_mutex_lock(&t->lock);
    HASH_ITER(hh, t->files, f, next_file)
    {
        ok = ok && (zf_file_unchanged(f->src, err) || being_written(t, f->path, "file", err));
        look_count(t, f->path);
    }
    HASH_ITER(hh, t->dirs, d, next_dir)
    {
        ok = ok && (!d->counts || look_at_dir(t, d, err));
    }
    (void)pthread_mutex_unlock(&t->lock);
    return ok;
}
