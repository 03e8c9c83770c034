/* SPDX-License-Identifier: Apache-2.0 */
/* Each file is opened and each directory listed once, by the first who asks; the lock is free
 * meanwhile, and whoever asks for the same one waits. */
#include "store_table.h"

#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

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
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    store_kept_free_all(t->files);
    store_kept_free_all(t->dirs);
    store_kept_free_all(t->no_files);
    store_kept_free_all(t->no_dirs);
    t->ops->fini(t->self);
    (void)pthread_cond_destroy(&t->made);
    (void)pthread_mutex_destroy(&t->lock);
    doubts_unref(t->doubts);
    free(t->shown);
    free(t);
}

struct store_table *store_table_new(const struct zf_store_ops *ops, void *self, const char *shown,
                                    const struct zf_limits *lim, struct zf_err *err)
{
    struct store_table *t = calloc(1, sizeof *t);
    char *copy = strdup(shown);
    struct zf_doubts *doubts = doubts_new(err);

    if (!t || !copy || !doubts) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        free(t);
        free(copy);
        doubts_unref(doubts);
        ops->fini(self);
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->ops = ops;
    t->self = self;
    t->lim = *lim;
    t->shown = copy;
    t->doubts = doubts;
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

    if (!k) {
        return NULL;
    }
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

static enum doubts_kind store_doubts_kind(const struct store_table *t, struct kept *const *table)
{
    return table == &t->dirs ? DOUBTS_DIR : DOUBTS_FILE;
}

/* The lock is held, but not while `make` works.  What failed is not kept here, so that it can be tried again
 * when it is settled. */
static struct kept *store_kept_make(struct store_table *t, struct kept **table, const char *path,
                                    const struct kept_by *by, kept_make_fn *make,
                                    struct zf_err *err)
{
    struct kept *k = store_kept_new(table, path, by ? by->known : NULL);

    if (!k) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
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
        doubts_add(t->doubts, store_doubts_kind(t, table), path, err);
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
        if (!k || !k->making) {
            break;
        }
        (void)pthread_cond_wait(&t->made, &t->lock);
    }
    if (!k && !doubts_again(t->doubts, store_doubts_kind(t, table), path, err)) {
        k = store_kept_make(t, table, path, by, make, err);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return k;
}
