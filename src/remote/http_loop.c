/* SPDX-License-Identifier: Apache-2.0 */
/* The client's thread owns every call from http_start to its end, and nobody else touches libcurl.
 * A caller waits on the call's condition and may leave at any time: a call owns everything it needs, so
 * nothing of the caller's is written to afterwards.  Work that may block (signing with credentials that run out)
 * is done by a second thread, the clerk, before a call is tried again. */
#include <stdio.h>
#include <string.h>

#include <zf/base/clock.h>
#include <zf/base/table.h>

#include "curl_late.h"
#include "http_inside.h"
#include "url.h"

#define HTTP_TRIES 8
/* One that never answered is given up sooner: most likely the address is wrong. */
#define HTTP_TRIES_STRANGER 3

/* ---- the end of a call ----------------------------------------------------------------------- */

void http_unref(struct http_call *c)
{
    if (--c->refs == 0) {
        http_call_free(c);
    }
}

/* Where it is now, for people; malloc'ed. */
static char *http_shown(const struct http_call *c)
{
    return c->ask.secret ? url_origin(c->at) : url_shown(c->at);
}

void http_name(const struct http_call *c, struct zf_err *err)
{
    zf_auto(mem) char *shown = http_shown(c);

    if (shown && !err->path[0]) {
        (void)zf_err_in(err, "%s", shown);
    }
}

void http_finish(struct http *h, struct http_call *c, bool ok)
{
    struct http_reply r = {0};

    http_call_end(c);
    if (!ok) {
        http_name(c, &c->err);
        if (c->host && !atomic_load(&c->cancelled)) {
            atomic_fetch_add(&c->host->errors, 1);
        }
    }
    if (c->ask.sink.done) {
        http_call_reply(c, &r);
        c->ask.sink.done(c->ask.sink.ctx, &r, ok ? NULL : &c->err);
        http_reply_fini(&r);
    }
    (void)pthread_mutex_lock(&h->lock);
    c->done = true;
    c->ok = ok;
    (void)pthread_cond_broadcast(&c->moved);
    http_unref(c);
    (void)pthread_mutex_unlock(&h->lock);
}

static void http_say(struct http *h, const struct http_call *c, const char *what)
{
    zf_auto(mem) char *shown = h->say ? http_shown(c) : NULL;
    char line[512];

    if (!shown) {
        return;
    }
    if (c->ask.len) {
        (void)snprintf(line, sizeof line, "%s %.300s bytes %llu-%llu: %.120s", c->ask.method, shown,
                       (unsigned long long)c->ask.off,
                       (unsigned long long)(c->ask.off + c->ask.len - 1), what);
    } else {
        (void)snprintf(line, sizeof line, "%s %.300s: %.120s", c->ask.method, shown, what);
    }
    h->say(h->say_ctx, line);
}

static void http_say_result(struct http *h, const struct http_call *c, int result)
{
    char what[128];

    if (!h->say) {
        return;
    }
    (void)snprintf(what, sizeof what, "%ld, %llu bytes%s%.64s", c->head.status,
                   (unsigned long long)(c->got ? c->got : c->body.n), result ? ", " : "",
                   result ? curl_easy_strerror((CURLcode)result) : "");
    http_say(h, c, what);
}

/* ---- the clerk ------------------------------------------------------------------------------- */

static bool http_renew(struct http_call *c)
{
    struct http_reply refused;
    bool again;

    http_call_reply(c, &refused);
    again = c->ask.auth->ops->renew(c->ask.auth, c->generation, &refused);
    /* Whoever asked gets to see it, should this have been the last attempt. */
    size_t n = refused.head ? strlen(refused.head) : 0;
    c->body = (struct zf_out){(char *)refused.body, refused.n_body, refused.n_body, false};
    c->lines = (struct zf_out){refused.head, n, n, false};
    refused.body = NULL;
    refused.head = NULL;
    http_reply_fini(&refused);
    return again;
}

/* Without the lock. */
static void http_sign_again(struct http_call *c)
{
    struct zf_err err = {.code = ZF_OK};
    bool ok = !c->renew || http_renew(c);

    ok = ok && http_call_sign(c, &err);
    if (!ok && err.code != ZF_OK) {
        c->err = err;
    }
    c->renew = !ok;
}

void *http_loop_clerk(void *arg)
{
    struct http *h = arg;

    (void)pthread_mutex_lock(&h->lock);
    while (!h->stop) {
        struct http_call *c = h->desk;

        if (!c) {
            (void)pthread_cond_wait(&h->work, &h->lock);
            continue;
        }
        DL_DELETE(h->desk, c);
        (void)pthread_mutex_unlock(&h->lock);
        http_sign_again(c);
        (void)pthread_mutex_lock(&h->lock);
        DL_APPEND(h->inbox, c);
        (void)curl_multi_wakeup(h->multi);
    }
    (void)pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* May this object have one more connection?  It leaves a quarter of those that are free to others, so
 * that one whose answers hang does not hold them all. */
static bool http_lane_free(const struct http *h, const struct http_call *c)
{
    unsigned in = 0, all = c->host->active, room = h->ways.connections;
    const struct http_call *x;

    if (all >= room) {
        return false;
    }
    if (!c->ask.lane) {
        return true;
    }
    for (x = h->calls; x; x = x->next) {
        in += x->state == HTTP_RUNNING && x->host == c->host && x->ask.lane == c->ask.lane;
    }
    return room < 4 || in < 3 * (room - all);
}

static void http_drop(struct http *h, struct http_call *c, bool ok)
{
    if (c->state == HTTP_RUNNING) {
        (void)curl_multi_remove_handle(h->multi, c->easy);
        c->host->active--;
    }
    DL_DELETE(h->calls, c);
    http_finish(h, c, ok);
}

static void http_run(struct http *h, struct http_call *c, double now)
{
    if (!http_call_begin(c, &h->ways, now, &c->err)) {
        http_drop(h, c, false);
        return;
    }
    c->tries++;
    atomic_fetch_add(&c->host->requests, 1);
    if (c->tries > 1 && c->redirects == 0) {
        atomic_fetch_add(&c->host->retries, 1);
    }
    if (curl_multi_add_handle(h->multi, c->easy) != CURLM_OK) {
        (void)zf_fail(&c->err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        http_drop(h, c, false);
        return;
    }
    c->state = HTTP_RUNNING;
    c->host->active++;
}

/* To the clerk, or back into the queue when there is nothing to sign. */
static void http_sign_later(struct http *h, struct http_call *c)
{
    if (!c->ask.auth || (!c->renew && !http_call_at_home(c))) {
        headers_fini(&c->sign);
        c->state = HTTP_QUEUED;
        return;
    }
    c->state = HTTP_SIGNING;
    DL_DELETE(h->calls, c);
    (void)pthread_mutex_lock(&h->lock);
    DL_APPEND(h->desk, c);
    (void)pthread_cond_signal(&h->work);
    (void)pthread_mutex_unlock(&h->lock);
}

static bool http_tries_left(const struct http_call *c, double pause, double now)
{
    unsigned most = c->most_tries                     ? c->most_tries
                    : atomic_load(&c->host->answered) ? HTTP_TRIES
                                                      : HTTP_TRIES_STRANGER;

    return c->tries < most && now + pause < c->deadline;
}

static void http_try_again(struct http *h, struct http_call *c, double now)
{
    double pause = http_call_pause(c);

    if (!http_tries_left(c, pause, now)) {
        size_t n = strlen(c->err.msg);

        if (c->tries > 1) {
            (void)snprintf(c->err.msg + n, sizeof c->err.msg - n, " (%u attempts)", c->tries);
        }
        http_drop(h, c, false);
        return;
    }
    c->not_before = now + pause;
    http_sign_later(h, c);
}

/* Behind a redirect the attempts are counted anew, but the time is not. */
static void http_follow(struct http *h, struct http_call *c)
{
    (void)pthread_mutex_lock(&h->lock);
    struct http_host *host = http_host_of(&h->hosts, c->at);
    (void)pthread_mutex_unlock(&h->lock);
    if (!host) {
        (void)zf_fail(&c->err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        http_drop(h, c, false);
        return;
    }
    c->host = host;
    c->tries = 0;
    http_sign_later(h, c);
}

static void http_ended(struct http *h, struct http_call *c, int result)
{
    http_say_result(h, c, result); /* before a redirect has changed where it goes */
    enum http_next next = http_call_judge(c, result);

    if (c->head.status) {
        atomic_store(&c->host->answered, true);
    }
    if (next == HTTP_GOOD || next == HTTP_BAD) {
        http_drop(h, c, next == HTTP_GOOD);
        return;
    }
    (void)curl_multi_remove_handle(h->multi, c->easy);
    http_call_end(c);
    c->host->active--;
    c->state = HTTP_QUEUED;
    if (next == HTTP_AGAIN) {
        http_try_again(h, c, (double)zf_clock_ns() / 1e9);
    } else if (next == HTTP_ELSEWHERE) {
        http_follow(h, c);
    } else {
        c->renew = true; /* c->err has the sentence, should nothing be renewed */
        http_sign_later(h, c);
    }
}

/* Starts the calls that were queued and drops those that were cancelled. */
static void http_take_in(struct http *h)
{
    struct http_call *c, *next;
    bool cancels;

    (void)pthread_mutex_lock(&h->lock);
    for (; (c = h->inbox);) {
        DL_DELETE(h->inbox, c);
        c->state = HTTP_QUEUED;
        DL_APPEND(h->calls, c);
    }
    cancels = h->cancels;
    h->cancels = false;
    (void)pthread_mutex_unlock(&h->lock);
    for (c = h->calls; c; c = next) {
        next = c->next;
        (void)pthread_mutex_lock(&h->lock);
        bool gone = cancels && atomic_load(&c->cancelled);
        (void)pthread_mutex_unlock(&h->lock);
        if (gone) {
            (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE, "the request was given up");
            http_drop(h, c, false);
        } else if (c->renew && c->state == HTTP_QUEUED) {
            http_drop(h, c, false); /* the clerk could do nothing */
        }
    }
}

/* Starts what may start, those that somebody waits for first.  Gives the seconds until something else
 * may. */
static double http_start_some(struct http *h, bool ahead, double wait)
{
    struct http_call *c, *next;
    double now = (double)zf_clock_ns() / 1e9;

    for (c = h->calls; c; c = next) {
        next = c->next;
        if (c->state != HTTP_QUEUED || c->ask.ahead != ahead) {
            continue;
        }
        double until = c->not_before > now ? c->not_before : c->deadline;
        if (c->deadline <= now) {
            (void)(c->err.msg[0] ||
                   zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE,
                           "it was not answered within %.3g seconds (-o timeout=)", h->ways.total));
            http_drop(h, c, false);
        } else if (c->not_before <= now && http_lane_free(h, c)) {
            http_run(h, c, now);
        } else if (until - now < wait) {
            wait = until - now;
        }
    }
    return wait;
}

void *http_loop(void *arg)
{
    struct http *h = arg;
    int running = 0, left;

    for (;;) {
        (void)pthread_mutex_lock(&h->lock);
        bool stop = h->stop;
        (void)pthread_mutex_unlock(&h->lock);
        if (stop) {
            return NULL;
        }
        http_take_in(h);
        double wait = http_start_some(h, true, http_start_some(h, false, 1));
        (void)curl_multi_perform(h->multi, &running);
        bool ended = false;
        for (CURLMsg *m; (m = curl_multi_info_read(h->multi, &left));) {
            struct http_call *c = NULL;

            if (m->msg == CURLMSG_DONE) {
                CURLcode result = m->data.result;
                (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
                http_ended(h, c, (int)result);
                ended = true;
            }
        }
        if (!ended) {
            (void)curl_multi_poll(h->multi, NULL, 0, (int)(wait * 1000) + 1, NULL);
        }
    }
}
