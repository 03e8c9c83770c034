/* SPDX-License-Identifier: Apache-2.0 */
#include "want.h"

#include <string.h>

#include <zf/base/thread.h>

#define JOBS 256
#define THREADS 4
/* A thread that had nothing to do for so long ends. */
#define IDLE_MS 2000

struct want_job {
    struct zf_source *src; /* a reference */
    uint64_t off, n;
    want_fetch_fn *fetch_fn;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct want_job job[JOBS]; /* [n] in the order they came */
    size_t n;
    const struct zf_source *inside[THREADS]; /* where each thread is; NULL: it waits, or is none */
    bool runs[THREADS];
    unsigned idle;
} wants = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static _Thread_local struct {
    bool watched, waited;
} want_thread;

bool zf_want_watch(bool yes)
{
    bool was = want_thread.watched;

    want_thread.watched = yes;
    want_thread.waited = false;
    return was;
}

bool zf_want_waited(void)
{
    bool was = want_thread.waited;

    want_thread.waited = false;
    return was;
}

bool zf_want_watched(void)
{
    return want_thread.watched;
}

void zf_want_note_wait(void)
{
    want_thread.waited = true;
}

void zf_source_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_soon how)
{
    while (s && n > 0 && off < s->size) {
        n = n < s->size - off ? n : s->size - off;
        if (s->ops->want) {
            s->ops->want(s, off, n, how);
            return;
        }
        if (!s->ops->origin || !s->ops->origin(s, &off, &s)) {
            return;
        }
    }
}

/* ---- the threads; the lock is held unless it is said ------------------------------------------ */

static bool want_is_inside(const struct zf_source *s)
{
    for (size_t i = 0; i < THREADS; i++) {
        if (wants.inside[i] == s) {
            return true;
        }
    }
    return false;
}

/* Takes the first job out that no other thread is at. */
static bool want_take(struct want_job *out)
{
    for (size_t i = 0; i < wants.n; i++) {
        if (!want_is_inside(wants.job[i].src)) {
            *out = wants.job[i];
            memmove(&wants.job[i], &wants.job[i + 1], (wants.n - i - 1) * sizeof *wants.job);
            wants.n--;
            return true;
        }
    }
    return false;
}

/* False: nothing came for a while. */
static bool want_sleep(void)
{
    wants.idle++;
    bool woken = zf_thread_wait(&wants.more, &wants.lock, IDLE_MS);
    wants.idle--;
    return woken || wants.n > 0;
}

static void *want_run(void *arg)
{
    const size_t me = (size_t)(uintptr_t)arg;
    struct want_job job;
    bool stays = true;

    (void)pthread_mutex_lock(&wants.lock);
    while (stays) {
        if (!want_take(&job)) {
            stays = want_sleep();
            continue;
        }
        wants.inside[me] = job.src;
        (void)pthread_mutex_unlock(&wants.lock);
        job.fetch_fn(job.src, job.off, job.n);
        (void)pthread_mutex_lock(&wants.lock);
        wants.inside[me] = NULL;
        /* Closing a file may take its time too. */
        (void)pthread_mutex_unlock(&wants.lock);
        zf_source_unref(&job.src);
        (void)pthread_mutex_lock(&wants.lock);
    }
    wants.runs[me] = false;
    (void)pthread_mutex_unlock(&wants.lock);
    return NULL;
}

/* One more thread if there is room for one. */
static void want_start_thread(void)
{
    pthread_t t;
    size_t me = 0;

    while (me < THREADS && wants.runs[me]) {
        me++;
    }
    if (me == THREADS) {
        return;
    }
    wants.runs[me] = zf_thread_start(&t, want_run, (void *)(uintptr_t)me) == 0;
    if (wants.runs[me]) {
        (void)pthread_detach(t);
    }
}

/* Does the job lengthen the last one that waits? */
static bool want_joins_last(const struct zf_source *s, uint64_t off, uint64_t n,
                            want_fetch_fn *fetch_fn)
{
    struct want_job *last = wants.n ? &wants.job[wants.n - 1] : NULL;

    if (!last || last->src != s || last->fetch_fn != fetch_fn || last->off + last->n != off) {
        return false;
    }
    last->n += n;
    return true;
}

void want_later(struct zf_source *s, uint64_t off, uint64_t n, want_fetch_fn *fetch_fn)
{
    (void)pthread_mutex_lock(&wants.lock);
    if (!want_joins_last(s, off, n, fetch_fn) && wants.n < JOBS) {
        wants.job[wants.n++] = (struct want_job){zf_source_ref(s), off, n, fetch_fn};
        if (wants.idle == 0) {
            want_start_thread();
        } else {
            (void)pthread_cond_signal(&wants.more);
        }
    }
    (void)pthread_mutex_unlock(&wants.lock);
}
