/* SPDX-License-Identifier: Apache-2.0 */
#include "want.h"

#include <string.h>

#include <zf/base/thread.h>

#define JOBS 256
/* Threads for whole jobs, and for jobs in pieces; PIECES_SHARE is the most that one source may use of the latter. */
#define WHOLE 4
#define PIECES 64
#define PIECES_SHARE 60
#define THREADS (WHOLE + PIECES)
/* A thread without work ends after this time. */
#define IDLE_MS 2000

struct want_job {
    struct zf_source *src; /* a reference */
    uint64_t off, n;
    uint64_t piece; /* bytes fetched at once; 0: the whole job */
    want_fetch_fn *fetch_fn;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct want_job job[JOBS]; /* [n], oldest first */
    size_t n;
    const struct zf_source
        *inside[THREADS]; /* the source each thread works on; NULL: idle or not running */
    bool runs[THREADS];
    unsigned idle;
    unsigned at_whole, at_pieces; /* threads working on whole jobs, and on pieces */
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

void zf_source_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    while (s && n > 0 && off < s->size) {
        n = n < s->size - off ? n : s->size - off;
        if (s->ops->want) {
            s->ops->want(s, off, n, how);
            return;
        }
        if (!s->ops->origin || !s->ops->origin(s, &off, &s))
            return;
    }
}

/* ---- the threads; called with the lock held, unless noted ------------------------------------- */

static unsigned want_inside(const struct zf_source *s)
{
    unsigned n = 0;

    for (size_t i = 0; i < THREADS; i++)
        n += wants.inside[i] == s;
    return n;
}

static unsigned *want_busy(const struct want_job *j)
{
    return j->piece ? &wants.at_pieces : &wants.at_whole;
}

static bool want_may_begin(const struct want_job *j)
{
    const unsigned n = want_inside(j->src);

    return j->piece ? n < PIECES_SHARE && wants.at_pieces < PIECES
                    : n == 0 && wants.at_whole < WHOLE;
}

/* The index of the first job that a thread may start; wants.n: none. */
static size_t want_next(void)
{
    size_t i = 0;

    while (i < wants.n && !want_may_begin(&wants.job[i]))
        i++;
    return i;
}

/* Takes the next job, or its first piece, which ends at a multiple of the piece size. */
static bool want_take(struct want_job *out)
{
    const size_t i = want_next();
    struct want_job *j = &wants.job[i];

    if (i == wants.n)
        return false;
    *out = *j;
    if (j->piece && j->n > j->piece - j->off % j->piece) {
        out->n = j->piece - j->off % j->piece;
        (void)zf_source_ref(j->src);
        j->off += out->n;
        j->n -= out->n;
    } else {
        memmove(j, j + 1, (wants.n - i - 1) * sizeof *j);
        wants.n--;
    }
    return true;
}

/* Waits for a job.  False: none came within IDLE_MS. */
static bool want_sleep(void)
{
    wants.idle++;
    bool woken = zf_thread_wait(&wants.more, &wants.lock, IDLE_MS);
    wants.idle--;
    return woken || wants.n > 0;
}

static void *want_run(void *arg);

/* Wakes or starts a thread, if there is a job that it may start. */
static void want_wake(void)
{
    pthread_t t;
    size_t me = 0;

    if (want_next() == wants.n)
        return;
    if (wants.idle > 0) {
        (void)pthread_cond_signal(&wants.more);
        return;
    }
    while (me < THREADS && wants.runs[me])
        me++;
    if (me == THREADS)
        return;
    wants.runs[me] = zf_thread_start(&t, want_run, (void *)(uintptr_t)me) == 0;
    if (wants.runs[me])
        (void)pthread_detach(t);
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
        (*want_busy(&job))++;
        want_wake();
        (void)pthread_mutex_unlock(&wants.lock);
        job.fetch_fn(job.src, job.off, job.n);
        (void)pthread_mutex_lock(&wants.lock);
        wants.inside[me] = NULL;
        (*want_busy(&job))--;
        /* Without the lock, because closing a file may take long, too. */
        (void)pthread_mutex_unlock(&wants.lock);
        zf_source_unref(&job.src);
        (void)pthread_mutex_lock(&wants.lock);
    }
    wants.runs[me] = false;
    (void)pthread_mutex_unlock(&wants.lock);
    return NULL;
}

/* Appends the job to the last waiting one, if it continues that. */
static bool want_joins_last(const struct want_job *j)
{
    struct want_job *last = wants.n ? &wants.job[wants.n - 1] : NULL;

    if (!last || last->src != j->src || last->fetch_fn != j->fetch_fn ||
        last->off + last->n != j->off)
        return false;
    last->n += j->n;
    return true;
}

static void want_put(struct want_job j)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&wants.lock);
    if (!want_joins_last(&j) && wants.n < JOBS) {
        (void)zf_source_ref(j.src);
        wants.job[wants.n++] = j;
        want_wake();
    }
}

void want_later(struct zf_source *s, uint64_t off, uint64_t n, want_fetch_fn *fetch_fn)
{
    want_put((struct want_job){.src = s, .off = off, .n = n, .fetch_fn = fetch_fn});
}

void want_pieces(struct zf_source *s, uint64_t off, uint64_t n, uint64_t piece,
                 want_fetch_fn *fetch_fn)
{
    want_put((struct want_job){s, off, n, piece, fetch_fn});
}
