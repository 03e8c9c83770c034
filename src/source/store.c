/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of all stores: it checks names, sorts listings and records failures (failures.h).
 * Each file is opened and each directory listed once, by the first thread that needs it, without the
 * lock; other threads that need the same one wait. */
#include "store_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/path.h>
#include <zf/base/vec.h>
#include <zf/source/begun.h>

/* ---- the table ------------------------------------------------------------------------------- */

static void store_kept_free(struct kept *k)
{
    zf_source_unref(&k->src);
    listing_fini(&k->l);
    free(k);
}

static void store_kept_free_all(struct kept *table)
{
    struct kept *k, *next;

    HASH_ITER(hh, table, k, next)
    {
        HASH_DEL(table, k);
        store_kept_free(k);
    }
}

void store_table_unref(struct store_table *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    store_kept_free_all(t->files);
    store_kept_free_all(t->dirs);
    store_kept_free_all(t->no_files);
    store_kept_free_all(t->no_dirs);
    t->ops->fini(t->self);
    (void)pthread_cond_destroy(&t->made);
    (void)pthread_mutex_destroy(&t->lock);
    failures_unref(t->failures);
    free(t->shown);
    free(t);
}

struct store_table *store_table_new(const struct zf_store_ops *ops, void *self, const char *shown,
                                    const struct zf_limits *lim, struct zf_err *err)
{
    struct store_table *t = calloc(1, sizeof *t);
    char *copy = strdup(shown);
    struct zf_failures *failures = failures_new(err);

    if (!t || !copy || !failures) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        free(t);
        free(copy);
        failures_unref(failures);
        ops->fini(self);
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->ops = ops;
    t->self = self;
    t->lim = *lim;
    t->shown = copy;
    t->failures = failures;
    (void)pthread_mutex_init(&t->lock, NULL);
    (void)pthread_cond_init(&t->made, NULL);
    return t;
}

/* ---- entries --------------------------------------------------------------------------------- */

struct kept *store_kept_find(struct kept *table, const char *path, size_t n)
{
    return zf_table_find(table, path, n);
}

struct kept *store_kept_new(struct kept **table, const char *path, const struct zf_entry *known)
{
    const size_t n = strlen(path);
    struct kept *k = calloc(1, sizeof *k + n + 1);
    struct zf_err ignored;

    if (!k)
        return NULL;
    memcpy(k->path, path, n + 1);
    if (!zf_table_add(*table, k->path, n, k, &ignored)) {
        free(k);
        return NULL;
    }
    k->known = known;
    return k;
}

static int store_kept_order(const struct kept *a, const struct kept *b)
{
    return strcmp(a->path, b->path);
}

void store_kept_sort(struct kept **table)
{
    HASH_SORT(*table, store_kept_order);
}

static enum failures_kind store_failure_kind(const struct store_table *t, struct kept *const *table)
{
    return table == &t->dirs ? FAILURES_DIR : FAILURES_FILE;
}

/* The lock is held on entry and return, but not while `make` runs.  A failure leaves no entry, so that another attempt is
 * possible once the failure is forgotten (failures_forget). */
static struct kept *store_kept_make(struct store_table *t, struct kept **table, const char *path,
                                    const struct kept_by *by, kept_make_fn *make,
                                    struct zf_err *err)
{
    struct kept *k = store_kept_new(table, path, by ? by->known : NULL);

    if (!k)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    k->making = true;
    k->note = by ? by->note : NULL;
    (void)pthread_mutex_unlock(&t->lock);
    bool ok = make(t, k, err);
    (void)pthread_mutex_lock(&t->lock);
    k->noted = k->note != NULL;
    k->note = NULL;
    k->making = false;
    (void)pthread_cond_broadcast(&t->made);
    if (!ok) {
        store_fact_failed(t, table == &t->dirs, path, err);
        HASH_DEL(*table, k);
        store_kept_free(k);
        failures_add(t->failures, store_failure_kind(t, table), path, err);
        return NULL;
    }
    return k;
}

struct kept *store_kept_get(struct store_table *t, struct kept **table, const char *path,
                            const struct kept_by *by, kept_make_fn *make, struct zf_err *err)
{
    struct kept *k = NULL;

    (void)pthread_mutex_lock(&t->lock);
    for (;;) {
        k = store_kept_find(*table, path, strlen(path));
        if (!k || !k->making)
            break;
        (void)pthread_cond_wait(&t->made, &t->lock);
    }
    if (!k && !failures_again(t->failures, store_failure_kind(t, table), path, err))
        k = store_kept_make(t, table, path, by, make, err);
    (void)pthread_mutex_unlock(&t->lock);
    return k;
}

/* ---- life ------------------------------------------------------------------------------------ */

void zf_store_unref(struct zf_store **st)
{
    struct zf_store *gone = *st;

    *st = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) != 1)
        return;
    store_table_unref(gone->t);
    free(gone->name);
    free(gone->base);
    free(gone->focus);
    free(gone->prefix);
    free(gone);
}

struct zf_store *zf_store_ref(struct zf_store *st)
{
    atomic_fetch_add_explicit(&st->refs, 1, memory_order_relaxed);
    return st;
}

/* Takes over the caller's reference on t, also on failure. */
static struct zf_store *store_of(struct store_table *t, struct zf_store_look look,
                                 const char *prefix, struct zf_err *err)
{
    zf_auto(store) struct zf_store *st = calloc(1, sizeof *st);

    if (!st) {
        store_table_unref(t);
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    }
    atomic_init(&st->refs, 1);
    st->t = t;
    st->name = strdup(look.name);
    st->prefix = strdup(prefix);
    st->focus = look.focus ? strdup(look.focus) : NULL;
    if (!st->name || !st->prefix || (look.focus && !st->focus))
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    if (failures_again(t->failures, FAILURES_DIR, prefix, err))
        return NULL;
    st->base = t->ops->base(t->self, prefix, err);
    if (!st->base) {
        (void)pthread_mutex_lock(&t->lock);
        store_fact_failed(t, true, prefix, err);
        (void)pthread_mutex_unlock(&t->lock);
        (void)zf_err_in(err, "%s", look.name);
        failures_add(t->failures, FAILURES_DIR, prefix, err);
        return NULL;
    }
    return zf_store_ref(st);
}

struct zf_store *zf_store_new(const struct zf_store_ops *ops, void *self, struct zf_store_look look,
                              const struct zf_limits *lim, struct zf_err *err)
{
    struct store_table *t = store_table_new(ops, self, look.shown, lim, err);

    return t ? store_of(t, look, "", err) : NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* a/b, or the one that is not empty; NULL: out of memory. */
static char *store_join(const char *a, const char *b)
{
    char *out = NULL;

    return asprintf(&out, "%s%s%s", a, a[0] && a[strlen(a) - 1] != '/' && b[0] ? "/" : "", b) < 0
               ? NULL
               : out;
}

/* The path in the table, malloc'ed.  `path` may be "" where a directory is meant. */
static char *store_path_in(const struct zf_store *st, const char *path, bool dir,
                           struct zf_err *err)
{
    if (!(dir && path[0] == '\0') && !zf_relpath_ok(path)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "\"%.200s\" is not a path inside the checkpoint", path);
        return zf_null(zf_err_in(err, "%s", st->name));
    }
    char *full = store_join(st->prefix, path);
    if (!full)
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    return full;
}

static bool store_named(const struct store_table *t, const char *path, struct zf_err *err)
{
    if (path[0])
        (void)zf_err_in(err, "%s", path);
    return t->shown[0] || !path[0] ? zf_err_in(err, "%s", t->shown) : false;
}

struct zf_store *zf_store_sub(struct zf_store *st, const char *dir, struct zf_err *err)
{
    zf_auto(mem) char *prefix = store_path_in(st, dir, true, err);
    zf_auto(mem) char *name = prefix ? store_join(st->t->shown, prefix) : NULL;

    if (!prefix)
        return NULL;
    if (!name)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    atomic_fetch_add_explicit(&st->t->refs, 1, memory_order_relaxed);
    return store_of(st->t, (struct zf_store_look){.name = name}, prefix, err);
}

const char *zf_store_focus(const struct zf_store *st)
{
    return st->focus;
}

const char *zf_store_name(const struct zf_store *st)
{
    return st->name;
}

const char *zf_store_below(const struct zf_store *st)
{
    return st->prefix;
}

const char *zf_store_base(const struct zf_store *st)
{
    return st->base;
}

struct zf_store *zf_store_by(const struct zf_opener *how, const char *where,
                             const struct zf_limits *lim, struct zf_err *err)
{
    return how ? how->open(how->ctx, where, lim, err) : zf_store_dir(where, lim, err);
}

bool zf_store_is_far(const struct zf_store *st)
{
    return st->t->ops->hosts != NULL;
}

bool zf_store_lags(const struct zf_store *st)
{
    return st->t->ops->lags && st->t->ops->lags(st->t->self);
}

bool zf_store_is_slow(const struct zf_store *st)
{
    return st->t->ops->slow && st->t->ops->slow(st->t->self);
}

void zf_store_hosts(const struct zf_store *st, zf_host_stats_fn *fn, void *ctx)
{
    if (st->t->ops->hosts)
        st->t->ops->hosts(st->t->self, fn, ctx);
}

/* ---- listings -------------------------------------------------------------------------------- */

/* Does a complete listing of `dir`, if it was made, lack this directory?  Listings of slow file systems are relied on,
 * too: a lookup of a missing name takes as long as any other. */
static bool store_lacks(struct store_table *t, const char *dir, const char *name)
{
    const bool slow = t->ops->slow && t->ops->slow(t->self);

    (void)pthread_mutex_lock(&t->lock);
    const struct kept *k = store_kept_find(t->dirs, dir, strlen(dir));
    bool known = k && !k->making && (k->l.whole || slow);
    (void)pthread_mutex_unlock(&t->lock);
    if (!known || name[0] == '.')
        return false;
    const struct zf_entry *e = listing_find(k->l.entry, k->l.n, name);
    return !e || e->kind == ZF_ENTRY_FILE;
}

/* Is it known from the listings of the directories above that there is no such directory?  Behind an
 * address each question is a round trip, and the families ask for many that are not there. */
static bool store_absent(struct store_table *t, const char *dir)
{
    for (size_t at = 0, n; dir[at]; at += n + (dir[at + n] == '/')) {
        n = strcspn(dir + at, "/");
        zf_auto(mem) char *up = strndup(dir, at ? at - 1 : 0);
        zf_auto(mem) char *name = strndup(dir + at, n);

        if (up && name && store_lacks(t, up, name))
            return true;
    }
    return false;
}

static bool store_list_make(struct store_table *t, struct kept *k, struct zf_err *err)
{
    if (store_absent(t, k->path)) {
        (void)zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "there is no such directory");
        return store_named(t, k->path, err);
    }
    if (!listing_read(t, k->path, NULL, &k->l, err))
        return store_named(t, k->path, err);
    listing_sort(&k->l);
    for (size_t i = 0; i < k->l.n; i++)
        k->unknown = k->unknown || k->l.entry[i].unknown;
    return true;
}

/* Entries that nobody could look at may be what is looked for. */
static void store_doubt_entry(struct store_table *t, const char *dir, const struct zf_entry *e)
{
    zf_auto(mem) char *path = store_join(dir, e->name);
    struct zf_err err;

    errno = e->unknown;
    (void)zf_fail_sys(&err, "examine it");
    (void)store_named(t, path ? path : e->name, &err);
    failures_add(t->failures, FAILURES_ENTRY, path ? path : e->name, &err);
}

struct kept *store_kept_dir(struct zf_store *st, const char *dir, struct zf_err *err)
{
    zf_auto(mem) char *full = store_path_in(st, dir, true, err);
    struct kept *k =
        full ? store_kept_get(st->t, &st->t->dirs, full, NULL, store_list_make, err) : NULL;

    for (size_t i = 0; k && k->unknown && i < k->l.n; i++)
        if (k->l.entry[i].unknown)
            store_doubt_entry(st->t, full, &k->l.entry[i]);
    return k;
}

bool zf_store_list(struct zf_store *st, const char *dir, const struct zf_entry **entries_out,
                   size_t *n_out, struct zf_err *err)
{
    const struct kept *d = store_kept_dir(st, dir, err);

    if (!d)
        return false;
    *entries_out = d->l.entry;
    *n_out = d->l.n;
    return true;
}

struct zf_entries zf_store_entries(struct zf_store *st, const char *dir)
{
    struct zf_err ignored;
    const struct zf_entry *e = NULL;
    size_t n = 0;

    return zf_store_list(st, dir, &e, &n, &ignored) && n > 0
               ? (struct zf_entries){.e = e, .end = e + n}
               : (struct zf_entries){NULL, NULL};
}

const struct zf_entry *zf_store_find(struct zf_store *st, const char *path)
{
    struct zf_err err;
    const struct zf_entry *entries;
    size_t n;
    zf_auto(mem) char *dir = strdup(path);

    if (!dir)
        return zf_null(zf_fail(&err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    return zf_store_list(st, slash ? dir : "", &entries, &n, &err)
               ? listing_find(entries, n, slash ? slash + 1 : path)
               : NULL;
}

bool zf_store_has(struct zf_store *st, const char *path, enum zf_entry_kind kind)
{
    const struct zf_entry *e = zf_store_find(st, path);

    return e && e->kind == kind;
}

bool zf_store_reaches(struct zf_store *st, const char *path, struct zf_err *err)
{
    zf_auto(mem) char *full = store_path_in(st, path, false, err);

    return !full || !st->t->ops->reaches || st->t->ops->reaches(st->t->self, full, err) ||
           store_named(st->t, full, err);
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool store_open_make(struct store_table *t, struct kept *k, struct zf_err *err)
{
    zf_auto(mem) char *name = store_join(t->shown, k->path);

    if (!name)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    k->src = k->note ? t->ops->again(t->self, k->path, name, *k->note, NULL, err)
                     : t->ops->open(t->self, k->path, name, k->known, err);
    if (k->src) {
        failures_unref(k->src->failures);
        k->src->failures = failures_ref(t->failures);
    }
    return k->src || zf_err_in(err, "%s", name);
}

/* Replaces "no such file" by a better error where a dangling link, or another entry that is no file, exists. */
static void store_dangling(struct zf_store *st, const char *path, struct zf_err *err)
{
    const struct zf_entry *e = zf_store_find(st, path);

    if (e && e->kind == ZF_ENTRY_OTHER) {
        const struct zf_err was = *err;

        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "this is %s, not a file", e->what);
        (void)zf_err_in(err, "%s", was.path);
        err->sys = was.sys;
    }
}

static struct zf_source *store_open_known(struct zf_store *st, const char *path,
                                          const struct zf_entry *known, struct zf_err *err)
{
    zf_auto(mem) char *full = store_path_in(st, path, false, err);
    const struct kept *f =
        full ? store_kept_get(st->t, &st->t->files, full, &(struct kept_by){.known = known},
                              store_open_make, err)
             : NULL;

    if (full && !f && (err->code == ZF_E_NOENT || err->sys == ELOOP))
        store_dangling(st, path, err);
    return f ? zf_source_ref(f->src) : NULL;
}

struct zf_source *zf_store_open(struct zf_store *st, const char *path, struct zf_err *err)
{
    return store_open_known(st, path, NULL, err);
}

struct zf_source *zf_store_open_later(struct zf_store *st, const char *path, struct zf_err *err)
{
    const struct zf_entry *e = zf_store_find(st, path);

    return store_open_known(st, path, e && e->kind == ZF_ENTRY_FILE && !e->fresh ? e : NULL, err);
}

struct zf_source *store_open_noted(struct zf_store *st, const char *path,
                                   const struct zf_bytes *note, struct zf_err *err)
{
    const struct kept_by by = {.note = note};
    struct store_table *t = st->t;
    zf_auto(mem) char *full = store_path_in(st, path, false, err);
    const struct kept *f =
        full ? store_kept_get(t, &t->files, full, &by, store_open_make, err) : NULL;

    if (!f || f->noted)
        return f ? zf_source_ref(f->src) : NULL;
    return t->ops->again(t->self, full, f->src->name, *note, f->src, err);
}

void zf_store_announce(struct zf_store *st, const char *const *path, size_t n)
{
    struct zf_err ignored;
    uint64_t new = 0;

    for (size_t i = 0; i < n; i++) {
        zf_auto(mem) char *full = store_path_in(st, path[i], false, &ignored);

        (void)pthread_mutex_lock(&st->t->lock);
        const struct kept *k = full ? store_kept_find(st->t->files, full, strlen(full)) : NULL;
        new += !k || k->making || !atomic_load_explicit(&k->src->begun, memory_order_relaxed);
        (void)pthread_mutex_unlock(&st->t->lock);
    }
    zf_begun_expect(new);
}

uint32_t zf_store_ahead(const struct zf_store *st)
{
    return st->t->ops->ahead;
}

/* The limit that callers read whole files within, by its value; 0 = a constant of the caller. */
static enum zf_limit store_limit(const struct zf_store *st, uint64_t max_bytes)
{
    const struct zf_limits *lim = &st->t->lim;

    return max_bytes == lim->pickle_bytes ? ZF_LIMIT_pickle_bytes
           : max_bytes == lim->json_bytes ? ZF_LIMIT_json_bytes
                                          : ZF_LIMIT_NONE;
}

char *zf_store_slurp(struct zf_store *st, const char *path, uint64_t max_bytes, uint64_t *n_out,
                     struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(st, path, err);

    if (!src)
        return NULL;
    if (src->size > max_bytes) {
        const enum zf_limit limit = store_limit(st, max_bytes);

        (void)zf_fail_limit(err, limit, ZF_OFF_NONE,
                            "the file has %" PRIu64 " bytes, more than the %" PRIu64
                            " allowed here%s%s%s",
                            src->size, max_bytes, limit ? " (limit " : "",
                            limit ? zf_limit_name(limit) : "", limit ? ")" : "");
        return zf_null(zf_err_in(err, "%s", src->name));
    }
    *n_out = src->size;
    return zf_source_slurp(src, 0, src->size, err);
}
