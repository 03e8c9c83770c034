/* SPDX-License-Identifier: Apache-2.0 */
/* The client's beginning and end, and the side of those who ask; http_loop.c does the work. */
#include <stdlib.h>

#include <zf/base/clock.h>
#include <zf/base/table.h>
#include <zf/base/thread.h>

#include "curl_late.h"
#include "http_inside.h"
#include "settings.h"

#define HTTP_CONNECTIONS 16
#define HTTP_TIMEOUT 120.0

/* ---- life ------------------------------------------------------------------------------------ */

static struct http_ways http_ways_of(const struct zf_remote_opts *o)
{
    double total = o->timeout > 0 ? o->timeout : HTTP_TIMEOUT;
    const char *bundle = settings_env("CURL_CA_BUNDLE");

    bundle = o->cacert ? o->cacert : bundle ? bundle : settings_env("SSL_CERT_FILE");
    return (struct http_ways){.cacert = bundle,
                              .capath = o->cacert ? NULL : settings_env("SSL_CERT_DIR"),
                              .connect = total / 4 < 10 ? total / 4 : 10,
                              .stall = total / 4 < 20 ? total / 4 : 20,
                              .total = total,
                              .connections = o->connections ? o->connections : HTTP_CONNECTIONS};
}

struct http *http_new(const struct zf_remote_opts *o, struct zf_err *err)
{
    if (!curl_late_load(err)) {
        return NULL;
    }
    struct http *h = calloc(1, sizeof *h);
    if (!h || !(h->multi = curl_multi_init())) {
        free(h);
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    h->ways = http_ways_of(o);
    h->say = o->say;
    h->say_ctx = o->say_ctx;
    h->advise = o->advise;
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_cond_init(&h->work, NULL);
    (void)curl_multi_setopt(h->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)h->ways.connections);
    /* Kept while nobody needs them, of a few hosts. */
    (void)curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)h->ways.connections * 4);
    h->has_thread = zf_thread_start(&h->thread, http_loop, h) == 0;
    h->has_clerk = h->has_thread && zf_thread_start(&h->clerk, http_loop_clerk, h) == 0;
    if (!h->has_clerk) {
        http_free(h);
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "cannot start a thread for requests");
        return NULL;
    }
    return h;
}

/* Those that nobody waited for. */
static void http_end_all(struct http *h, struct http_call **list)
{
    for (struct http_call *c; (c = *list);) {
        DL_DELETE(*list, c);
        (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE, "the request was given up");
        if (c->state == HTTP_RUNNING) {
            (void)curl_multi_remove_handle(h->multi, c->easy);
        }
        http_finish(h, c, false);
    }
}

void http_free(struct http *h)
{
    if (!h) {
        return;
    }
    (void)pthread_mutex_lock(&h->lock);
    h->stop = true;
    (void)pthread_cond_broadcast(&h->work);
    (void)pthread_mutex_unlock(&h->lock);
    (void)curl_multi_wakeup(h->multi);
    if (h->has_thread) {
        (void)pthread_join(h->thread, NULL);
    }
    if (h->has_clerk) {
        (void)pthread_join(h->clerk, NULL);
    }
    http_end_all(h, &h->calls);
    http_end_all(h, &h->inbox);
    http_end_all(h, &h->desk);
    (void)curl_multi_cleanup(h->multi);
    http_hosts_fini(&h->hosts);
    (void)pthread_cond_destroy(&h->work);
    (void)pthread_mutex_destroy(&h->lock);
    free(h);
}

/* ---- the caller's side ----------------------------------------------------------------------- */

struct http_call *http_start(struct http *h, const struct http_ask *ask, struct zf_err *err)
{
    struct http_call *c = http_call_new(ask, err);

    if (c && !http_call_sign(c, err)) {
        http_name(c, err);
        http_call_free(c);
        return NULL;
    }
    if (!c) {
        return NULL;
    }
    c->http = h;
    c->most_tries = ask->tries;
    c->deadline = (double)zf_clock_ns() / 1e9 + (ask->timeout > 0 ? ask->timeout : h->ways.total);
    (void)pthread_mutex_lock(&h->lock);
    c->host = http_host_of(&h->hosts, c->at);
    if (c->host) {
        c->refs++;
        DL_APPEND(h->inbox, c);
    }
    (void)pthread_mutex_unlock(&h->lock);
    if (!c->host) {
        http_call_free(c);
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    (void)curl_multi_wakeup(h->multi);
    return c;
}

bool http_wait(struct http_call *c, struct http_reply *out, struct zf_err *err)
{
    struct http *h = c->http;

    (void)pthread_mutex_lock(&h->lock);
    while (!c->done) {
        (void)pthread_cond_wait(&c->moved, &h->lock);
    }
    bool ok = c->ok;
    (void)pthread_mutex_unlock(&h->lock);
    http_call_reply(c, out);
    if (!ok) {
        *err = c->err;
    }
    (void)pthread_mutex_lock(&h->lock);
    http_unref(c);
    (void)pthread_mutex_unlock(&h->lock);
    return ok;
}

void http_leave(struct http_call *c)
{
    struct http *h = c->http;

    (void)pthread_mutex_lock(&h->lock);
    http_unref(c);
    (void)pthread_mutex_unlock(&h->lock);
}

void http_cancel(struct http_call *c)
{
    struct http *h = c->http;

    (void)pthread_mutex_lock(&h->lock);
    atomic_store(&c->cancelled, true);
    h->cancels = true;
    http_unref(c);
    (void)pthread_mutex_unlock(&h->lock);
    (void)curl_multi_wakeup(h->multi);
}

bool http_do(struct http *h, const struct http_ask *ask, struct http_reply *out, struct zf_err *err)
{
    struct http_call *c = http_start(h, ask, err);

    *out = (struct http_reply){.status = 0};
    out->object = HTTP_OBJECT_UNKNOWN;
    return c && http_wait(c, out, err);
}

bool http_do_many(const struct http_many *m, size_t n, size_t *bad_out, struct zf_err *err)
{
    struct http_call *call[HTTP_MANY];
    size_t at[HTTP_MANY], begun = 0, n_calls = 0, waited = 0;
    bool ok = true;

    while (ok && (begun < n || waited < n_calls)) {
        if (begun < n && n_calls - waited < HTTP_MANY) {
            struct http_call *c = NULL;

            ok = m->begin(m->ctx, begun, &c, err);
            if (c) {
                at[n_calls % HTTP_MANY] = begun;
                call[n_calls++ % HTTP_MANY] = c;
            }
            *bad_out = begun++;
        } else {
            const size_t k = waited++ % HTTP_MANY;

            *bad_out = at[k];
            ok = m->end(m->ctx, at[k], call[k], err);
        }
    }
    for (; waited < n_calls; waited++) {
        http_cancel(call[waited % HTTP_MANY]);
    }
    return ok;
}

void http_advise(struct http *h, const char *line)
{
    if (h->advise) {
        h->advise(h->say_ctx, line);
    }
}

void http_hosts(struct http *h, zf_host_stats_fn *fn, void *ctx)
{
    (void)pthread_mutex_lock(&h->lock);
    http_hosts_each(&h->hosts, fn, ctx);
    (void)pthread_mutex_unlock(&h->lock);
}

struct http_host *http_host_for(struct http *h, const char *url)
{
    (void)pthread_mutex_lock(&h->lock);
    struct http_host *host = http_host_of(&h->hosts, url);
    (void)pthread_mutex_unlock(&h->lock);
    return host;
}

void http_count_hits(struct http_host *host, uint64_t hits)
{
    if (host) {
        atomic_fetch_add_explicit(&host->hits, hits, memory_order_relaxed);
    }
}
