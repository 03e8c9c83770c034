/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of a client, and the queue in which requests wait for their connections. */
#include "http_inside.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/clock.h>
#include <zf/base/table.h>
#include <zf/base/thread.h>

#include "libraries.h"
#include "url.h"

double http_now(void)
{
    return (double)zf_clock_ns() / 1e9;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static void http_host_free(struct http_host *host)
{
    for (size_t i = 0; i < host->idle.n; i++)
        (void)curl_multi_cleanup(host->idle.at[i]);
    zf_vec_fini(&host->idle);
    free(host->origin);
    free(host);
}

static struct http_host *http_host_new(const char *origin)
{
    struct http_host *host = calloc(1, sizeof *host);

    if (host && !(host->origin = strdup(origin))) {
        http_host_free(host);
        host = NULL;
    }
    return host;
}

struct http_host *http_host_for(struct http *h, const char *url)
{
    zf_auto(mem) char *origin = url_origin(url);

    if (!origin)
        return NULL;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&h->lock);
    struct http_host **at = &h->hosts;
    while (*at && strcmp((*at)->origin, origin) != 0)
        at = &(*at)->next;
    if (!*at)
        *at = http_host_new(origin);
    return *at;
}

void http_hosts(struct http *h, zf_host_stats_fn *fn, void *ctx)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&h->lock);
    for (const struct http_host *host = h->hosts; host; host = host->next) {
        const struct zf_host_stats s = {
            .host = strstr(host->origin, "://") + 3,
            .requests = atomic_load(&host->requests),
            .retries = atomic_load(&host->retries),
            .bytes = atomic_load(&host->bytes),
            .errors = atomic_load(&host->errors),
            .hits = atomic_load(&host->hits),
        };

        fn(ctx, &s);
    }
}

void http_count_hits(struct http_host *host, uint64_t hits)
{
    atomic_fetch_add_explicit(&host->hits, hits, memory_order_relaxed);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* The caller holds the lock, in all of this part.  May the turn's object have one more connection?  A quarter of the free
 * ones is reserved for others, so that a hanging object cannot occupy them all. */
static bool http_turn_may(const struct http *h, const struct http_turn *t)
{
    const unsigned all = t->host->active, room = h->config.connections;
    unsigned in = 0;

    if (all >= room)
        return false;
    for (const struct http_turn *x = t->host->running; t->lane && x; x = x->next)
        in += x->lane == t->lane;
    return !t->lane || room < 4 || in < 3 * (room - all);
}

static void *http_pool(void *arg);

static bool http_pool_add(struct http *h, struct zf_err *err)
{
    pthread_t *t = zf_vec_push(&h->pool, err);

    if (t && zf_thread_start(t, http_pool, h) != 0) {
        h->pool.n--;
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "cannot start a thread for requests");
    }
    return t != NULL;
}

static void http_turn_grant(struct http *h, struct http_turn *t)
{
    struct http_host *host = t->host;
    struct zf_err ignored; /* without a new thread, an existing one runs the turn later */

    DL_DELETE(host->waiting, t);
    DL_APPEND(host->running, t);
    host->active += !t->extra;
    t->granted = true;
    t->multi = host->idle.n ? host->idle.at[--host->idle.n] : NULL;
    if (!t->run) {
        (void)pthread_cond_signal(&t->moved);
        return;
    }
    h->ready++;
    if (h->ready <= h->idle || h->stop || !http_pool_add(h, &ignored))
        (void)pthread_cond_signal(&h->work);
}

/* Gives free connections first to turns with a waiting reader, then to prefetches.  Turns past their deadline leave the
 * queue too: they fail without a request. */
static void http_queue_move(struct http *h, struct http_host *host)
{
    const double now = host->waiting ? http_now() : 0;

    for (int ahead = 0; ahead < 2; ahead++) {
        for (struct http_turn *t = host->waiting, *next; t; t = next) {
            next = t->next;
            if (t->ahead == ahead &&
                (t->extra || h->stop || t->deadline <= now || http_turn_may(h, t)))
                http_turn_grant(h, t);
        }
    }
}

static void http_turn_queue(struct http *h, struct http_turn *t)
{
    (void)pthread_cond_init(&t->moved, NULL);
    DL_APPEND(t->host->waiting, t);
    http_queue_move(h, t->host);
}

/* Waits until the turn is signalled, at most this many seconds. */
static void http_turn_wait(struct http *h, struct http_turn *t, double seconds)
{
    const double most = 3600; /* a longer wait returns early; callers wait in a loop */

    (void)zf_thread_wait(&t->moved, &h->lock,
                         (unsigned)((seconds < most ? seconds : most) * 1000) + 1);
}

/* ---- used by a request ----------------------------------------------------------------------- */

void http_turn_begin(struct http *h, struct http_turn *t, bool extra)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&h->lock);
    t->extra = extra;
    http_turn_queue(h, t);
    while (!t->granted) {
        const double left = t->deadline - http_now();

        if (left <= 0)
            http_turn_grant(h, t);
        else
            http_turn_wait(h, t, left);
    }
}

void http_turn_end(struct http *h, struct http_turn *t)
{
    struct http_host *host = t->host;
    struct zf_err ignored;

    if (!t->granted)
        return;
    (void)pthread_mutex_lock(&h->lock);
    void **kept = t->multi && host->idle.n < h->config.connections
                      ? zf_vec_push(&host->idle, &ignored)
                      : NULL;
    if (kept)
        *kept = zf_give(t->multi);
    DL_DELETE(host->running, t);
    host->active -= !t->extra;
    http_queue_move(h, host);
    (void)pthread_mutex_unlock(&h->lock);
    if (t->multi)
        (void)curl_multi_cleanup(t->multi);
    (void)pthread_cond_destroy(&t->moved);
}

void *http_turn_multi(struct http *h, struct http_turn *t)
{
    if (!t->multi) {
        void *multi = curl_multi_init();

        (void)pthread_mutex_lock(&h->lock);
        t->multi = multi;
        (void)pthread_mutex_unlock(&h->lock);
    }
    return t->multi;
}

void http_turn_pause(struct http *h, struct http_turn *t, double seconds)
{
    const double until = http_now() + seconds;
    double left = seconds;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&h->lock);
    while (left > 0 && !h->stop) {
        http_turn_wait(h, t, left);
        left = until - http_now();
    }
}

/* ---- the pool -------------------------------------------------------------------------------- */

void http_later(struct http *h, struct http_turn *t)
{
    t->deadline = http_now() + h->config.total;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&h->lock);
    http_turn_queue(h, t);
}

/* Takes a turn that has a connection but no thread; NULL: there is none. */
static struct http_turn *http_pool_take(struct http *h)
{
    for (struct http_host *host = h->hosts; host && h->ready; host = host->next) {
        for (struct http_turn *t = host->running; t; t = t->next) {
            if (t->run && !t->taken) {
                t->taken = true;
                h->ready--;
                return t;
            }
        }
    }
    return NULL;
}

static void *http_pool(void *arg)
{
    struct http *h = arg;

    (void)pthread_mutex_lock(&h->lock);
    for (;;) {
        struct http_turn *t = http_pool_take(h);

        if (t) {
            (void)pthread_mutex_unlock(&h->lock);
            t->run(t);
            (void)pthread_mutex_lock(&h->lock);
        } else if (h->stop) {
            break;
        } else {
            h->idle++;
            (void)pthread_cond_wait(&h->work, &h->lock);
            h->idle--;
        }
    }
    (void)pthread_mutex_unlock(&h->lock);
    return NULL;
}

bool http_queue_init(struct http *h, struct zf_err *err)
{
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_cond_init(&h->work, NULL);
    (void)pthread_mutex_lock(&h->lock);
    bool ok = http_pool_add(h, err);
    (void)pthread_mutex_unlock(&h->lock);
    return ok;
}

void http_queue_fini(struct http *h)
{
    (void)pthread_mutex_lock(&h->lock);
    h->stop = true;
    for (struct http_host *host = h->hosts; host; host = host->next) {
        http_queue_move(h, host);
        for (struct http_turn *t = host->running; t; t = t->next) {
            (void)pthread_cond_signal(&t->moved);
            if (t->multi)
                (void)curl_multi_wakeup(t->multi);
        }
    }
    (void)pthread_cond_broadcast(&h->work);
    (void)pthread_mutex_unlock(&h->lock);
    for (size_t i = 0; i < h->pool.n; i++)
        (void)pthread_join(h->pool.at[i], NULL);
    zf_vec_fini(&h->pool);
    for (struct http_host *host = h->hosts, *next; host; host = next) {
        next = host->next;
        http_host_free(host);
    }
    (void)pthread_cond_destroy(&h->work);
    (void)pthread_mutex_destroy(&h->lock);
}
