/* SPDX-License-Identifier: Apache-2.0 */
/* All that a store was asked: the tables of opened files and listed directories, and the paths that
 * did not exist. */
#include <zf/source/facts.h>

#include <string.h>

#include <zf/base/hash.h>

#include "place.h"
#include "store_table.h"

/* Fixed, because hashes are compared across processes; the key of zf_hash is random in each.
 * Somebody who can forge a listing with the same hash can as well write the model cache itself. */
static const struct zf_hash_key fact_key[2] = {{{0x7a65726f66732d31u, 0x6c697374696e6773u}},
                                               {{0x7a65726f66732d32u, 0x6964656e74697479u}}};

static void fact_add(uint64_t print[2], const void *p, size_t n)
{
    print[0] = zf_hash_of(&fact_key[0], print[0], p, n);
    print[1] = zf_hash_of(&fact_key[1], print[1], p, n);
}

static void fact_print_listing(const struct zf_listing *l, uint64_t print[2])
{
    print[0] = print[1] = l->n;
    for (size_t i = 0; i < l->n; i++) {
        const struct zf_entry *e = &l->entry[i];

        fact_add(print, e->name, strlen(e->name));
        fact_add(print, e->what, strlen(e->what));
        fact_add(print, &e->id, sizeof e->id);
    }
}

static void fact_print_file(const struct zf_identity *id, uint64_t print[2])
{
    print[0] = print[1] = 0;
    fact_add(print, id, sizeof *id);
}

void store_fact_failed(struct store_table *t, bool dir, const char *path, const struct zf_err *err)
{
    struct kept **table = dir ? &t->no_dirs : &t->no_files;
    const struct kept *k = store_kept_find(*table, path, strlen(path));
    bool there = err->code != ZF_E_NOENT && err->code != ZF_E_FORMAT;

    t->doubtful = t->doubtful || there || (!k && !store_kept_new(table, path, NULL));
}

static bool fact_doubt(const struct store_table *t, const char *path, struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "it may answer differently next time");
    return zf_err_in(err, "%s", path[0] ? path : t->shown);
}

/* The callback that receives the facts. */
struct fact_to {
    zf_fact_fn *fn;
    void *ctx;
    struct timespec since;
};

/* Reports a file with a note, on storage where the identity alone proves too little. */
static bool fact_report_noted(struct store_table *t, const struct kept *k, struct zf_fact *f,
                              const struct fact_to *to, struct zf_err *err)
{
    zf_auto(out) struct zf_out note = {0};

    if (t->ops->note && !t->ops->note(t->self, k->src, &note, err))
        return zf_err_in(err, "%s", k->path);
    if (!t->ops->note)
        t->ops->seen(t->self, k->src, &note);
    f->note = zf_bytes_of(note.p, note.n);
    return zf_out_ok(&note, err) && to->fn(to->ctx, f, err);
}

static bool fact_report(struct store_table *t, struct kept *k, enum zf_fact_kind kind,
                        const struct fact_to *to, struct zf_err *err)
{
    struct zf_fact f = {.kind = kind, .path = k->path, .src = k->src};
    const struct zf_source_ops *ops = k->src ? k->src->ops : NULL;
    struct zf_identity id;

    if (k->making || (ops && ops->usage && ops->usage(k->src).errors > 0) ||
        (kind == ZF_FACT_FILE && !zf_source_identity(k->src, &id)))
        return fact_doubt(t, k->path, err);
    if (kind == ZF_FACT_DIR) {
        fact_print_listing(&k->l, f.print);
    } else if (kind == ZF_FACT_FILE && t->ops->note) {
        return fact_report_noted(t, k, &f, to, err);
    } else if (kind == ZF_FACT_FILE && place_racy(&id, to->since)) {
        (void)zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "it changed only a moment ago");
        return zf_err_in(err, "%s", k->path);
    } else if (kind == ZF_FACT_FILE) {
        fact_print_file(&id, f.print);
        if (t->ops->seen)
            return fact_report_noted(t, k, &f, to, err);
    }
    return to->fn(to->ctx, &f, err);
}

static bool fact_report_all(struct store_table *t, struct kept **table, enum zf_fact_kind kind,
                            const struct fact_to *to, struct zf_err *err)
{
    store_kept_sort(table);
    for (struct kept *k = *table; k; k = k->hh.next)
        if (!fact_report(t, k, kind, to, err))
            return false;
    return true;
}

bool zf_store_facts(struct zf_store *st, struct timespec since, zf_fact_fn *fn, void *ctx,
                    struct zf_err *err)
{
    const struct fact_to to = {fn, ctx, since};
    struct store_table *t = st->t;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&t->lock);
    return t->doubtful || failures_met(t->failures)
               ? fact_doubt(t, "", err)
               : fact_report_all(t, &t->dirs, ZF_FACT_DIR, &to, err) &&
                     fact_report_all(t, &t->files, ZF_FACT_FILE, &to, err) &&
                     fact_report_all(t, &t->no_dirs, ZF_FACT_NO_DIR, &to, err) &&
                     fact_report_all(t, &t->no_files, ZF_FACT_NO_FILE, &to, err);
}

/* ---- do the facts still hold? ---- */

static bool fact_changed(const struct zf_store *st, const char *path, const char *how,
                         struct zf_err *err)
{
    zf_err_clear(err);
    (void)zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "%s", how);
    return zf_err_in(err, "%s", path[0] ? path : zf_store_name(st));
}

static bool fact_same(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

static bool fact_is_pinned(const struct zf_store *st)
{
    return zf_store_pin(st)[0] != '\0';
}

static bool fact_holds_dir(struct zf_store *st, const struct zf_fact *f, struct zf_err *err)
{
    const struct kept *d = store_kept_dir(st, f->path, err);
    uint64_t print[2];

    if (!d)
        return false;
    fact_print_listing(&d->l, print);
    return fact_same(print, f->print) ||
           fact_changed(st, f->path, "the directory has changed", err);
}

static bool fact_holds_file(struct zf_store *st, const struct zf_fact *f,
                            struct zf_source **src_out, struct zf_err *err)
{
    struct zf_identity id;
    uint64_t print[2];

    if (st->t->ops->again) {
        *src_out = store_open_noted(st, f->path, &f->note, err);
        return *src_out != NULL;
    }
    *src_out = zf_store_open_later(st, f->path, err);
    if (!*src_out)
        return false;
    if (zf_source_identity(*src_out, &id)) {
        fact_print_file(&id, print);
        if (fact_same(print, f->print) &&
            (!st->t->ops->expect || st->t->ops->expect(st->t->self, *src_out, f->note, err)))
            return true;
    }
    zf_source_unref(src_out);
    return fact_changed(st, f->path, "the file has changed", err);
}

static bool fact_holds_no_dir(struct zf_store *st, const struct zf_fact *f, struct zf_err *err)
{
    if (store_kept_dir(st, f->path, err))
        return fact_changed(st, f->path, "there was no such directory", err);
    return err->code == ZF_E_NOENT;
}

/* For stores whose listings may be incomplete: tries to open the file. */
static bool fact_is_missing(struct zf_store *st, const char *path, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(st, path, err);

    return src ? fact_changed(st, path, "there was no such file", err) : err->code == ZF_E_NOENT;
}

/* An entry of that name that is not a file does not count. */
static bool fact_holds_no_file(struct zf_store *st, const struct zf_fact *f, struct zf_err *err)
{
    zf_auto(mem) char *dir = strdup(f->path);
    char *slash = dir ? strrchr(dir, '/') : NULL;

    if (!dir)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    dir[slash ? slash - dir : 0] = '\0';
    const struct kept *d = store_kept_dir(st, dir, err);
    if (!d)
        return err->code == ZF_E_NOENT;
    if (zf_store_has(st, f->path, ZF_ENTRY_FILE))
        return fact_changed(st, f->path, "there was no such file", err);
    return !zf_store_is_far(st) || d->l.dotted || fact_is_missing(st, f->path, err);
}

bool zf_store_holds(struct zf_store *st, const struct zf_fact *f, struct zf_source **src_out,
                    struct zf_err *err)
{
    *src_out = NULL;
    if (f->kind != ZF_FACT_FILE && fact_is_pinned(st))
        return true;
    switch (f->kind) {
    case ZF_FACT_DIR:
        return fact_holds_dir(st, f, err);
    case ZF_FACT_FILE:
        return fact_holds_file(st, f, src_out, err);
    case ZF_FACT_NO_DIR:
        return fact_holds_no_dir(st, f, err);
    case ZF_FACT_NO_FILE:
        return fact_holds_no_file(st, f, err);
    case ZF_FACT_KINDS:
        break;
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "an unknown kind of fact");
}

bool zf_store_prove(struct zf_store *st, struct zf_source *const *file, size_t n,
                    struct zf_err *err)
{
    const struct store_table *t = st->t;
    size_t bad = 0;

    return !t->ops->unchanged || !n || t->ops->unchanged(t->self, file, n, &bad, err) ||
           zf_err_in(err, "%s", file[bad]->name);
}

const char *zf_store_pin(const struct zf_store *st)
{
    const char *pin = st->t->ops->pin ? st->t->ops->pin(st->t->self) : NULL;

    return pin ? pin : "";
}
