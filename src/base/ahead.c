/* SPDX-License-Identifier: Apache-2.0 */
/* An ordered parallel map over a ring of slots.  Items are started in order: by a thread as soon as
 * a slot is free, or by the taker itself if no thread has started the item it needs, so that it
 * never waits for a thread that could not be created.  After a failure no further item is started
 * until the failure was taken, because the taker will most likely stop there.
 *
 * The number of items in progress adapts: it starts with the few that suit a local disk, where
 * threads mostly compute, and doubles each time that the threads mostly wait (for a network). */
#include <zf/base/ahead.h>

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <zf/base/thread.h>

/* The assumed weight, in bytes, of an item before any was weighed. */
#define AHEAD_LEAST (256u << 10)

struct ahead_place {
    bool done;
    uint64_t weight;
    void *made;
    struct zf_err err; /* when made is NULL */
};

struct zf_ahead {
    struct zf_ahead_work work;
    uint64_t n;
    uint32_t most;        /* slots in the ring */
    pthread_t *thread;    /* [most] */
    pthread_mutex_t lock; /* protects all below */
    uint32_t n_threads;
    uint32_t want;             /* wanted threads and items in progress; work.few … most */
    uint64_t weight, heaviest; /* bytes of items made and not taken; of the heaviest recent item */
    uint64_t making;           /* items being made now */
    bool bounded, weighed; /* ZF_AHEAD_HEAVY holds for the first few, too; an item was weighed */
    uint64_t streak;       /* number of latest items in a row that mostly waited */
    pthread_cond_t made;   /* signals the taker */
    pthread_cond_t room;   /* signals threads: one more item may start */
    bool stop;
    unsigned failures;         /* failures not taken yet */
    uint64_t begun, taken;     /* begun - taken slots are in use */
    struct ahead_place *place; /* [most] */
};

/* ---- how many ------------------------------------------------------------------------------- */

struct ahead_clock {
    struct timespec wall, cpu;
    long slept, preempted; /* numbers of context switches */
};

static struct ahead_clock ahead_now(void)
{
    struct ahead_clock c;
    struct rusage u = {0};

    (void)getrusage(RUSAGE_THREAD, &u);
    c.slept = u.ru_nvcsw;
    c.preempted = u.ru_nivcsw;
    (void)clock_gettime(CLOCK_MONOTONIC, &c.wall);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &c.cpu);
    return c;
}

static int64_t ahead_ns(struct timespec from, struct timespec to)
{
    return (int64_t)(to.tv_sec - from.tv_sec) * 1000000000 + (to.tv_nsec - from.tv_nsec);
}

/* Did the thread sleep for most of the time, and for long enough to be worth another thread?  Waiting for a processor is
 * not sleeping. */
static bool ahead_waited(const struct ahead_clock *began)
{
    const struct ahead_clock now = ahead_now();
    int64_t cpu = ahead_ns(began->cpu, now.cpu), wall = ahead_ns(began->wall, now.wall);

    return wall - cpu > 2000000 && wall > 4 * cpu &&
           now.slept - began->slept > now.preempted - began->preempted;
}

/* May another item be started?  One is always made ahead, so that the taker and a thread can both work, unless two
 * items are known to be too heavy: then none is started while the taker may still hold the last one. */
static bool ahead_may_begin(const struct zf_ahead *a)
{
    const uint64_t ahead = a->begun - a->taken;
    const uint64_t weight = a->weight + (a->making + 1) * a->heaviest;

    if (a->failures > 0 || ahead >= a->want)
        return false;
    if (ahead >= a->work.few)
        return weight <= ZF_AHEAD_ROOM;
    if (ahead == 0)
        return !a->bounded || a->work.likely == 0 || 2 * a->heaviest <= ZF_AHEAD_HEAVY;
    return !a->bounded || (a->weighed ? weight <= ZF_AHEAD_HEAVY : ahead < 2);
}

/* ---- making --------------------------------------------------------------------------------- */

static void ahead_more(struct zf_ahead *a);

/* Makes the next item.  The lock is held on entry and return, but released while the item is made. */
static void ahead_make(struct zf_ahead *a)
{
    uint64_t i = a->begun++;
    struct ahead_place *p = &a->place[i % a->most];

    a->making++;
    if (ahead_may_begin(a))
        (void)pthread_cond_signal(&a->room);
    (void)pthread_mutex_unlock(&a->lock);
    const struct ahead_clock began = ahead_now();
    p->made = a->work.make(a->work.ctx, i, &p->err);
    bool waited = ahead_waited(&began);
    (void)pthread_mutex_lock(&a->lock);
    a->making--;
    p->done = true;
    p->weight = p->made && a->work.weigh ? a->work.weigh(p->made) : 0;
    if (!a->weighed) {
        a->weighed = true;
        (void)pthread_cond_broadcast(&a->room); /* several may start now, if items are light */
    }
    a->weight += p->weight;
    /* Decays, because the first of many ranks often has more than all others. */
    a->heaviest -= a->heaviest / 8;
    a->heaviest = p->weight > a->heaviest ? p->weight : a->heaviest;
    a->failures += !p->made;
    /* On a busy machine some items wait; on a slow source all do. */
    a->streak = waited ? a->streak + 1 : 0;
    if (a->streak >= 2 * (uint64_t)a->want && a->want < a->most && a->n_threads >= a->want) {
        a->want = a->want * 2 < a->most ? a->want * 2 : a->most;
        a->streak = 0;
        ahead_more(a);
    }
    (void)pthread_cond_signal(&a->made);
}

static void *ahead_run(void *arg)
{
    struct zf_ahead *a = arg;

    (void)pthread_mutex_lock(&a->lock);
    while (!a->stop && a->begun < a->n)
        if (ahead_may_begin(a))
            ahead_make(a);
        else
            (void)pthread_cond_wait(&a->room, &a->lock);
    (void)pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* An item in progress holds up to two descriptors; all together may use half of the process's limit. */
static uint32_t ahead_bound(uint32_t most)
{
    struct rlimit r;
    const bool known = getrlimit(RLIMIT_NOFILE, &r) == 0;

    if (!known || r.rlim_cur / 4 >= most)
        return most;
    return r.rlim_cur < 8 ? 1 : (uint32_t)(r.rlim_cur / 4);
}

/* Starts missing threads, up to `want`; the lock is held. */
static void ahead_more(struct zf_ahead *a)
{
    while (!a->stop && a->n_threads < a->want && a->n_threads + 1 < a->n &&
           zf_thread_start(&a->thread[a->n_threads], ahead_run, a) == 0)
        a->n_threads++;
}

struct zf_ahead *zf_ahead_new(struct zf_ahead_work work, uint64_t n, struct zf_err *err)
{
    struct zf_ahead *a = calloc(1, sizeof *a);
    const bool bounded = work.few == 0 && work.weigh;
    work.few = ahead_bound(work.few ? work.few : ZF_AHEAD_FEW);
    const uint32_t most = work.most > work.few ? ahead_bound(work.most) : work.few;

    if (!a || !(a->place = calloc(most, sizeof *a->place)) ||
        !(a->thread = calloc(most, sizeof *a->thread))) {
        (void)zf_fail_sys(err, "begin reading ahead");
        free(a ? a->place : NULL);
        free(a);
        return NULL;
    }
    a->work = work;
    a->n = n;
    a->most = most;
    a->want = work.slow ? most : work.few;
    a->heaviest = work.weigh ? AHEAD_LEAST : 0;
    a->heaviest = work.likely > a->heaviest ? work.likely : a->heaviest;
    a->weighed = work.likely > 0;
    a->bounded = bounded;
    (void)pthread_mutex_init(&a->lock, NULL);
    (void)pthread_cond_init(&a->made, NULL);
    (void)pthread_cond_init(&a->room, NULL);
    (void)pthread_mutex_lock(&a->lock);
    ahead_more(a);
    (void)pthread_mutex_unlock(&a->lock);
    return a;
}

void *zf_ahead_take(struct zf_ahead *a, struct zf_err *err)
{
    struct ahead_place *p = &a->place[a->taken % a->most];

    assert(a->taken < a->n);
    (void)pthread_mutex_lock(&a->lock);
    if (a->begun == a->taken)
        ahead_make(a);
    while (!p->done)
        (void)pthread_cond_wait(&a->made, &a->lock);
    void *made = p->made;
    if (!made) {
        *err = p->err;
        a->failures--;
    }
    p->done = false;
    p->made = NULL;
    a->weight -= p->weight;
    a->taken++;
    (void)pthread_cond_signal(&a->room);
    (void)pthread_mutex_unlock(&a->lock);
    return made;
}

void zf_ahead_free(struct zf_ahead *a)
{
    if (!a)
        return;
    (void)pthread_mutex_lock(&a->lock);
    a->stop = true;
    (void)pthread_cond_broadcast(&a->room);
    (void)pthread_mutex_unlock(&a->lock);
    /* `stop` is set, so no further thread is started. */
    for (uint32_t i = 0; i < a->n_threads; i++)
        (void)pthread_join(a->thread[i], NULL);
    for (uint32_t i = 0; i < a->most; i++)
        if (a->place[i].made && a->work.drop)
            a->work.drop(a->place[i].made);
    (void)pthread_cond_destroy(&a->made);
    (void)pthread_cond_destroy(&a->room);
    (void)pthread_mutex_destroy(&a->lock);
    free(a->place);
    free(a->thread);
    free(a);
}

bool zf_ahead_all(struct zf_ahead_work work, uint64_t n, struct zf_err *err)
{
    zf_auto(ahead) struct zf_ahead *a = zf_ahead_new(work, n, err);

    for (uint64_t i = 0; a && i < n; i++)
        if (!zf_ahead_take(a, err))
            return false;
    return a != NULL;
}
