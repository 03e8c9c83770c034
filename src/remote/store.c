/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a place.  It keeps the properties of listed files that a zf_entry cannot hold, such as the ETag, by path
 * until the file is opened. */
#include "object.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/path.h>
#include <zf/base/table.h>
#include <zf/base/thread.h>
#include <zf/source/store_kind.h>

/* Properties of a file in a listing. */
struct store_listed {
    UT_hash_handle hh; /* key: the path */
    uint64_t size;
    struct timespec mtime;
    time_t date;
    bool asked;           /* they are not from the listing but from a HEAD of the file */
    char *etag, *version; /* malloc'ed; NULL = unknown */
};

struct store {
    struct object_shared *shared;
    pthread_mutex_t lock;        /* guards `listed` */
    struct store_listed *listed; /* uthash */
    struct zf_store *local;      /* -o local_cache=; NULL = none */
    uint64_t most_asked;         /* limit head_requests */
};

/* ---- listed files ------------------------------------------------------------------------- */

static char *store_text(const char *text)
{
    return text[0] ? strdup(text) : NULL;
}

static bool store_remember(struct store *s, const char *path, const struct http_object *o,
                           bool asked, struct zf_err *err)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    struct store_listed *l = zf_table_make_str(s->listed, path, err);
    if (l) {
        free(l->etag);
        free(l->version);
        *l = (struct store_listed){.hh = l->hh,
                                   .size = o->size,
                                   .mtime = o->mtime,
                                   .date = o->date,
                                   .asked = asked,
                                   .etag = store_text(o->etag),
                                   .version = store_text(o->version)};
    }
    return l != NULL;
}

/* Finds the properties of a listed file.  *asked_out (may be NULL): they are from a HEAD of the file. */
static bool store_recall(struct store *s, const char *path, struct http_object *out,
                         bool *asked_out)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    const struct store_listed *l = zf_table_find_str(s->listed, path);
    *out = HTTP_OBJECT_UNKNOWN;
    if (asked_out)
        *asked_out = l && l->asked;
    if (l) {
        out->size = l->size;
        out->mtime = l->mtime;
        out->date = l->date;
        if (l->etag)
            memcpy(out->etag, l->etag, strlen(l->etag) + 1);
        if (l->version)
            memcpy(out->version, l->version, strlen(l->version) + 1);
    }
    return l != NULL;
}

/* ---- listing --------------------------------------------------------------------------------- */

/* Adds entry i to the listing l, and remembers the file's properties. */
static bool store_add(struct store *s, const char *dir, const struct entries *all, size_t i,
                      struct zf_listing *l, struct zf_err *err)
{
    const struct entry *e = &all->at[i];
    const struct http_object o = entries_object(all, i);
    zf_auto(mem) char *path = zf_relpath_join(dir, e->name, err);
    struct zf_entry entry = {.name = e->name,
                             .what = e->dir ? "a directory" : "a file",
                             .kind = e->dir ? ZF_ENTRY_DIR : ZF_ENTRY_FILE};

    /* In a listing that is only compared by name, a file without a size has no new properties. */
    bool named = e->asked && l->names_do;
    if (!path || (!e->dir && !named && !store_remember(s, path, &o, e->asked, err)))
        return false;
    entry.asked = e->asked;
    if (!e->dir && !named) {
        entry.id = object_identity_of(s->shared, path, &o);
        entry.exact = http_object_exact(&o);
        entry.fresh = e->gone; /* opened without delay, to report the reason of the failure */
        entry.id.size = e->gone ? UINT64_MAX : entry.id.size;
    }
    return zf_listing_add(l, &entry, err);
}

static bool store_list(void *self, const char *dir, struct zf_listing *l, struct zf_err *err)
{
    struct store *s = self;
    struct place *p = s->shared->place;
    zf_auto(entries) struct entries all = {.text = NULL};
    const struct zf_limits lim = {.dir_entries = l->limit};
    bool ok = entries_init(&all, &lim, err) && p->ops->list(p, dir, &all, err);

    if (!ok) {
        err->path[0] = '\0'; /* the store adds the name that the user knows */
    } else {
        ok = place_complete(p, dir, &all, l->names_do, s->most_asked,
                            err); /* its error names the file */
    }
    if (!l->again)
        object_first_seen(s->shared);
    for (size_t i = 0; ok && i < all.n; i++)
        ok = store_add(s, dir, &all, i, l, err);
    l->whole = atomic_load_explicit(&p->lists_all, memory_order_relaxed);
    l->dotted = l->whole && p->lists_dots;
    return ok;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* -o local_cache=DIR, as in OLMo: a file that DIR has at the same path with the same size is read from there.  Source:
 * OLMo olmo/util.py, resource_path (0.6.0), which checks only the name; the size is our addition.  NULL: there is no such
 * file, or it cannot be opened. */
static struct zf_source *store_open_local(const struct store *s, const char *path, uint64_t size)
{
    const struct zf_entry *e = s->local ? zf_store_find(s->local, path) : NULL;
    struct zf_err ignored;

    if (!e || e->kind != ZF_ENTRY_FILE || e->id.size != size)
        return NULL;
    struct zf_source *src = zf_store_open(s->local, path, &ignored);
    if (src && src->size != size)
        zf_source_unref(&src);
    return src;
}

static struct zf_source *store_open(void *self, const char *path, const char *name,
                                    const struct zf_entry *known, struct zf_err *err)
{
    struct store *s = self;
    struct http_object o;
    bool asked, listed = store_recall(s, path, &o, &asked);
    struct zf_source *local =
        listed && o.size != HTTP_SIZE_UNKNOWN ? store_open_local(s, path, o.size) : NULL;

    if (local) {
        object_first_seen(s->shared);
        return local;
    }
    /* Properties from a HEAD of the file do not count as a listing. */
    struct zf_source *src = object_open(s->shared, path, name, listed ? &o : NULL, known != NULL,
                                        listed && !asked && http_object_exact(&o), err);
    /* Without a size in the listing, it is known only now. */
    local = src ? store_open_local(s, path, src->size) : NULL;
    if (local)
        zf_source_unref(&src);
    if (local || !src)
        object_first_seen(s->shared); /* a missing file is an observation of the place, too */
    return local ? local : src;
}

static char *store_base(void *self, const char *dir, struct zf_err *err)
{
    const struct store *s = self;
    const char *from = dir[0] ? dir : s->shared->place->shown, *slash = strrchr(from, '/');
    char *base = strdup(slash ? slash + 1 : from);

    if (!base)
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    return base;
}

static bool store_unchanged(void *self, struct zf_source *const *file, size_t n, size_t *bad_out,
                            struct zf_err *err)
{
    const struct store *s = self;
    zf_auto(mem) struct zf_source **object = s->local ? calloc(n + 1, sizeof *object) : NULL;
    zf_auto(mem) size_t *at = s->local ? calloc(n + 1, sizeof *at) : NULL;
    size_t some = 0;

    if (!s->local)
        return object_unchanged(file, n, bad_out, err);
    if (!object || !at)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (size_t i = 0; i < n; i++) {
        if (object_of(file[i])) {
            at[some] = i;
            object[some++] = file[i];
        } else if (!file[i]->ops->unchanged(file[i], err)) {
            *bad_out = i;
            return false;
        }
    }
    bool ok = object_unchanged(object, some, bad_out, err);
    *bad_out = ok ? 0 : at[*bad_out];
    return ok;
}

static void store_hosts(void *self, zf_host_stats_fn *fn, void *ctx)
{
    const struct store *s = self;

    http_hosts(s->shared->place->http, fn, ctx);
}

/* ---- cached models ------------------------------------------------------------------------------ */

static bool store_note(void *self, struct zf_source *file, struct zf_out *out, struct zf_err *err)
{
    const struct store *s = self;

    /* A file of local_cache= belongs to another store. */
    return !s->local
               ? object_note_put(file, out, err)
               : zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "local_cache= may hold the file");
}

static struct zf_source *store_again(void *self, const char *path, const char *name,
                                     struct zf_bytes note, struct zf_source *open,
                                     struct zf_err *err)
{
    struct store *s = self;
    struct http_object o;
    bool listed = store_recall(s, path, &o, NULL);

    return open ? object_note_same(open, note, err)
                : object_note_open(s->shared, path, name, note, listed ? &o : NULL, err);
}

static const char *store_pin(const void *self)
{
    const struct store *s = self;

    return s->shared->place->immutable ? s->shared->place->shown : NULL;
}

static void store_fini(void *self)
{
    struct store *s = self;

    for (struct store_listed *l = s->listed; l; l = l->hh.next) {
        free(l->etag);
        free(l->version);
    }
    zf_table_free(s->listed);
    object_shared_unref(s->shared);
    zf_store_unref(&s->local);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static const struct zf_store_ops store_ops = {
    .list = store_list,
    .open = store_open,
    .base = store_base,
    .unchanged = store_unchanged,
    .hosts = store_hosts,
    .note = store_note,
    .again = store_again,
    .pin = store_pin,
    .fini = store_fini,
    .ahead = 64,
};

/* Makes the store of a place, which it owns, even on failure. */
static struct store *store_make(struct place *p, const struct store_config *w,
                                const struct zf_limits *lim, struct zf_err *err)
{
    struct store *s = calloc(1, sizeof *s);
    struct object_shared *shared = calloc(1, sizeof *shared);
    struct zf_cache *decoded = zf_cache_new(lim->cache_bytes, err);

    p->focus = w->focus ? strdup(w->focus) : NULL;
    if (!s || !shared || !decoded || (w->focus && !p->focus)) {
        free(s);
        free(shared);
        zf_cache_unref(&decoded);
        p->ops->fini(p);
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    }
    atomic_init(&shared->refs, 1);
    shared->place = p;
    shared->cache = w->cache;
    shared->disk = w->disk;
    shared->decoded = decoded;
    shared->dev = object_hash(0, p->shown);
    s->shared = shared;
    s->most_asked = lim->head_requests;
    (void)pthread_mutex_init(&s->lock, NULL);
    return s;
}

/* Opens the directory of -o local_cache=. */
static bool store_with_local(struct store *s, const char *dir, const struct zf_limits *lim,
                             struct zf_err *err)
{
    if (!dir)
        return true;
    s->local = zf_store_dir(dir, lim, err);
    if (s->local && zf_store_focus(s->local)) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "local_cache= is a directory, but this is a file");
        return zf_err_in(err, "%s", dir);
    }
    return s->local != NULL;
}

struct zf_store *store_of_place(struct place *p, const struct store_config *w,
                                const struct zf_limits *lim, struct zf_err *err)
{
    struct store *s = store_make(p, w, lim, err);
    zf_auto(mem) char *name = NULL;

    if (!s)
        return NULL;
    if (!store_with_local(s, w->local, lim, err)) {
        store_fini(s);
        return NULL;
    }
    if (w->focus && asprintf(&name, "%s/%s", p->shown, w->focus) < 0)
        name = NULL;
    return zf_store_new(&store_ops, s,
                        (struct zf_store_look){
                            .name = name ? name : p->shown, .shown = p->shown, .focus = w->focus},
                        lim, err);
}
