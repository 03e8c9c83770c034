/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of as many places as there are threads.  Things are begun in their order, by a thread as
 * soon as a place is free, or by the taker when nobody has begun the one it asks for: so it never
 * waits for a thread that is not there.  After a failure no other thing is begun until it was taken,
 * because the taker will most likely give up. */
#include <zf/base/ahead.h>

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct ahead_place {
    bool done;
    void *made;
    struct zf_err err; /* when made is NULL */
};

struct zf_ahead {
    struct zf_ahead_work work;
    uint64_t n;
    unsigned width;
    pthread_t thread[ZF_AHEAD_WIDEST];
    unsigned n_threads;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t moved;
    bool stop;
    unsigned failures;     /* that wait to be taken */
    uint64_t begun, taken; /* begun - taken places are in use */
    struct ahead_place place[ZF_AHEAD_WIDEST];
};

/* Makes the next thing; the lock is held, but not meanwhile. */
static void ahead_make(struct zf_ahead *a)
{
    uint64_t i = a->begun++;
    struct ahead_place *p = &a->place[i % a->width];

    (void)pthread_mutex_unlock(&a->lock);
    p->made = a->work.make(a->work.ctx, i, &p->err);
    (void)pthread_mutex_lock(&a->lock);
    p->done = true;
    a->failures += !p->made;
    (void)pthread_cond_broadcast(&a->moved);
}

static bool ahead_may_begin(const struct zf_ahead *a)
{
    return a->failures == 0 && a->begun - a->taken < a->width;
}

static void *ahead_run(void *arg)
{
    struct zf_ahead *a = arg;

    (void)pthread_mutex_lock(&a->lock);
    while (!a->stop && a->begun < a->n) {
        if (ahead_may_begin(a)) {
            ahead_make(a);
        } else {
            (void)pthread_cond_wait(&a->moved, &a->lock);
        }
    }
    (void)pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* Signals are for the threads that were there before. */
static void ahead_start(struct zf_ahead *a)
{
    sigset_t all, was;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &was);
    while (a->n_threads < a->width && a->n_threads + 1 < a->n &&
           pthread_create(&a->thread[a->n_threads], NULL, ahead_run, a) == 0) {
        a->n_threads++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
}

struct zf_ahead *zf_ahead_new(struct zf_ahead_work work, uint64_t n, struct zf_err *err)
{
    struct zf_ahead *a = calloc(1, sizeof *a);

    if (!a) {
        (void)zf_fail_sys(err, "begin reading ahead");
        return NULL;
    }
    a->work = work;
    a->width = work.width ? work.width : ZF_AHEAD_MOST;
    a->width = a->width < ZF_AHEAD_WIDEST ? a->width : ZF_AHEAD_WIDEST;
    a->n = n;
    (void)pthread_mutex_init(&a->lock, NULL);
    (void)pthread_cond_init(&a->moved, NULL);
    ahead_start(a);
    return a;
}

void *zf_ahead_take(struct zf_ahead *a, struct zf_err *err)
{
    struct ahead_place *p = &a->place[a->taken % a->width];

    assert(a->taken < a->n);
    (void)pthread_mutex_lock(&a->lock);
    if (a->begun == a->taken) {
        ahead_make(a);
    }
    while (!p->done) {
        (void)pthread_cond_wait(&a->moved, &a->lock);
    }
    void *made = p->made;
    if (!made) {
        *err = p->err;
        a->failures--;
    }
    p->done = false;
    p->made = NULL;
    a->taken++;
    (void)pthread_cond_broadcast(&a->moved);
    (void)pthread_mutex_unlock(&a->lock);
    return made;
}

void zf_ahead_free(struct zf_ahead *a)
{
    if (!a) {
        return;
    }
    (void)pthread_mutex_lock(&a->lock);
    a->stop = true;
    (void)pthread_cond_broadcast(&a->moved);
    (void)pthread_mutex_unlock(&a->lock);
    while (a->n_threads) {
        (void)pthread_join(a->thread[--a->n_threads], NULL);
    }
    for (size_t i = 0; i < a->width; i++) {
        if (a->place[i].made) {
            a->work.drop(a->place[i].made);
        }
    }
    (void)pthread_cond_destroy(&a->moved);
    (void)pthread_mutex_destroy(&a->lock);
    free(a);
}
