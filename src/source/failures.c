/* SPDX-License-Identifier: Apache-2.0 */
#include "failures.h"

#include <stdatomic.h>
#include <stdlib.h>

#include <zf/base/hash.h>
#include <zf/base/vec.h>
#include <zf/base/thread.h>

/* Failures that are counted, and the number of them whose text is kept. */
enum { FAILURES_COUNTED = 4096, FAILURES_KEPT = 64 };

struct failure {
    uint64_t what;        /* hash of kind and path, under this process's secret key */
    uint64_t first, last; /* the numbers (`met`) of its first and last occurrence */
    struct zf_err *err;   /* or NULL */
};

struct zf_failures {
    atomic_uint refs;
    atomic_uint_least64_t met;
    pthread_mutex_t lock; /* protects the list */
    zf_vec(struct failure) list;
};

struct zf_failures *failures_new(struct zf_err *err)
{
    struct zf_failures *d = calloc(1, sizeof *d);

    if (!d)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    atomic_init(&d->refs, 1);
    (void)pthread_mutex_init(&d->lock, NULL);
    return d;
}

struct zf_failures *failures_ref(struct zf_failures *d)
{
    atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
    return d;
}

void failures_unref(struct zf_failures *d)
{
    if (!d || atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < d->list.n; i++)
        free(d->list.at[i].err);
    zf_vec_fini(&d->list);
    (void)pthread_mutex_destroy(&d->lock);
    free(d);
}

/* The lock is held.  *kept_out: the number of failures passed whose text is kept. */
static struct failure *failures_find(struct zf_failures *d, uint64_t what, size_t *kept_out)
{
    *kept_out = 0;
    for (size_t i = 0; i < d->list.n; i++) {
        if (d->list.at[i].what == what)
            return &d->list.at[i];
        *kept_out += d->list.at[i].err != NULL;
    }
    return NULL;
}

/* The lock is held.  NULL: the list is full, or out of memory. */
static struct failure *failures_push(struct zf_failures *d, uint64_t what, bool keep,
                                     const struct zf_err *err)
{
    struct zf_err ignored;
    struct failure *k = d->list.n < FAILURES_COUNTED ? zf_vec_push(&d->list, &ignored) : NULL;

    if (k) {
        *k = (struct failure){.what = what, .first = d->met};
        k->err = keep ? malloc(sizeof *k->err) : NULL;
        if (k->err)
            *k->err = *err;
    }
    return k;
}

void failures_add(struct zf_failures *d, enum failures_kind kind, const char *path,
                  const struct zf_err *err)
{
    const uint64_t what = zf_hash_str(kind, path);
    size_t n_kept;

    if (!zf_err_unknown(err))
        return;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&d->lock);
    struct failure *k = failures_find(d, what, &n_kept);
    k = k ? k : failures_push(d, what, n_kept < FAILURES_KEPT, err);
    if (k)
        k->last = d->met;
    d->met++;
}

bool failures_again(struct zf_failures *d, enum failures_kind kind, const char *path,
                    struct zf_err *err)
{
    size_t n_kept;

    if (!failures_met(d))
        return false;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&d->lock);
    struct failure *k = failures_find(d, zf_hash_str(kind, path), &n_kept);
    const bool known = k && k->err;
    if (known) {
        *err = *k->err;
        k->last = d->met++;
    }
    return known;
}

uint64_t failures_met(struct zf_failures *d)
{
    return atomic_load_explicit(&d->met, memory_order_acquire);
}

bool failures_get(struct zf_failures *d, uint64_t since, size_t i, struct zf_err *out)
{
    bool found = false;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&d->lock);
    for (size_t k = 0; k < d->list.n && !found; k++) {
        const struct failure *at = &d->list.at[k];

        found = at->err && at->last >= since && i-- == 0;
        if (found)
            *out = *at->err;
    }
    return found;
}

size_t failures_count(struct zf_failures *d, uint64_t since)
{
    size_t n = 0;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&d->lock);
    for (size_t k = 0; k < d->list.n; k++)
        n += d->list.at[k].last >= since;
    return n;
}

void failures_forget(struct zf_failures *d, uint64_t since)
{
    size_t n = 0;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&d->lock);
    for (size_t k = 0; k < d->list.n; k++)
        if (d->list.at[k].first >= since)
            free(d->list.at[k].err);
        else
            d->list.at[n++] = d->list.at[k];
    d->list.n = n;
}
