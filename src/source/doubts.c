/* SPDX-License-Identifier: Apache-2.0 */
#include "doubts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/vec.h>

/* How many are kept one by one, and how many further ones are counted. */
enum { DOUBTS_KEPT = 64, DOUBTS_COUNTED = 4096 };

struct doubt {
    uint64_t first, last; /* the number of its first and last meeting */
    enum doubts_kind kind;
    char *path;
    struct zf_err err;
};

/* One that is not kept. */
struct doubt_mark {
    uint64_t what; /* hash of kind and path */
    uint64_t first, last;
};

struct zf_doubts {
    atomic_uint refs;
    atomic_uint_least64_t met;
    pthread_mutex_t lock; /* of what follows */
    zf_vec(struct doubt) list;
    zf_vec(struct doubt_mark) more;
};

struct zf_doubts *doubts_new(struct zf_err *err)
{
    struct zf_doubts *d = calloc(1, sizeof *d);

    if (!d) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    atomic_init(&d->refs, 1);
    (void)pthread_mutex_init(&d->lock, NULL);
    return d;
}

struct zf_doubts *doubts_ref(struct zf_doubts *d)
{
    atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
    return d;
}

void doubts_unref(struct zf_doubts *d)
{
    if (!d || atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < d->list.n; i++)
        free(d->list.at[i].path);
    zf_vec_fini(&d->list);
    zf_vec_fini(&d->more);
    (void)pthread_mutex_destroy(&d->lock);
    free(d);
}

/* The lock is held. */
static struct doubt *doubts_find(struct zf_doubts *d, enum doubts_kind kind, const char *path)
{
    for (size_t i = 0; i < d->list.n; i++)
        if (d->list.at[i].kind == kind && strcmp(d->list.at[i].path, path) == 0)
            return &d->list.at[i];
    return NULL;
}

/* The lock is held.  NULL: there are too many, or no memory is left. */
static struct doubt *doubts_push(struct zf_doubts *d, enum doubts_kind kind, const char *path,
                                 const struct zf_err *err)
{
    struct zf_err ignored;
    char *copy = d->list.n < DOUBTS_KEPT ? strdup(path) : NULL;
    struct doubt *k = copy ? zf_vec_push(&d->list, &ignored) : NULL;

    if (!k) {
        free(copy);
        return NULL;
    }
    *k = (struct doubt){.first = d->met, .kind = kind, .path = copy, .err = *err};
    return k;
}

/* The lock is held. */
static void doubts_mark(struct zf_doubts *d, enum doubts_kind kind, const char *path)
{
    const uint64_t what = zf_hash_str(kind, path);
    struct zf_err ignored;

    for (size_t i = 0; i < d->more.n; i++) {
        if (d->more.at[i].what == what) {
            d->more.at[i].last = d->met;
            return;
        }
    }
    struct doubt_mark *m = d->more.n < DOUBTS_COUNTED ? zf_vec_push(&d->more, &ignored) : NULL;
    if (m)
        *m = (struct doubt_mark){.what = what, .first = d->met, .last = d->met};
}

void doubts_add(struct zf_doubts *d, enum doubts_kind kind, const char *path,
                const struct zf_err *err)
{
    if (!zf_err_unknown(err))
        return;
    (void)pthread_mutex_lock(&d->lock);
    struct doubt *k = doubts_find(d, kind, path);
    k = k ? k : doubts_push(d, kind, path, err);
    if (k)
        k->last = d->met;
    else
        doubts_mark(d, kind, path);
    d->met++;
    (void)pthread_mutex_unlock(&d->lock);
}

bool doubts_again(struct zf_doubts *d, enum doubts_kind kind, const char *path, struct zf_err *err)
{
    if (!doubts_met(d))
        return false;
    (void)pthread_mutex_lock(&d->lock);
    struct doubt *k = doubts_find(d, kind, path);
    if (k) {
        *err = k->err;
        k->last = d->met++;
    }
    (void)pthread_mutex_unlock(&d->lock);
    return k != NULL;
}

uint64_t doubts_met(struct zf_doubts *d)
{
    return atomic_load_explicit(&d->met, memory_order_acquire);
}

bool doubts_get(struct zf_doubts *d, uint64_t since, size_t i, struct zf_err *out)
{
    bool found = false;

    (void)pthread_mutex_lock(&d->lock);
    for (size_t k = 0; k < d->list.n && !found; k++) {
        found = d->list.at[k].last >= since && i-- == 0;
        if (found)
            *out = d->list.at[k].err;
    }
    (void)pthread_mutex_unlock(&d->lock);
    return found;
}

size_t doubts_count(struct zf_doubts *d, uint64_t since)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&d->lock);
    for (size_t k = 0; k < d->list.n; k++)
        n += d->list.at[k].last >= since;
    for (size_t k = 0; k < d->more.n; k++)
        n += d->more.at[k].last >= since;
    (void)pthread_mutex_unlock(&d->lock);
    return n;
}

void doubts_forget(struct zf_doubts *d, uint64_t since)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&d->lock);
    for (size_t k = 0; k < d->list.n; k++)
        if (d->list.at[k].first >= since)
            free(d->list.at[k].path);
        else
            d->list.at[n++] = d->list.at[k];
    d->list.n = n;
    n = 0;
    for (size_t k = 0; k < d->more.n; k++)
        if (d->more.at[k].first < since)
            d->more.at[n++] = d->more.at[k];
    d->more.n = n;
    (void)pthread_mutex_unlock(&d->lock);
}
