/* SPDX-License-Identifier: Apache-2.0 */
/* A whole request: signing, sending and judging, repeated while a retry may help.  Everything happens in the calling
 * thread. */
#include <stdio.h>
#include <stdlib.h>

#include <zf/base/ahead.h>

#include "libraries.h"
#include "http_inside.h"
#include "settings.h"
#include "url.h"

#define HTTP_CONNECTIONS 16
#define HTTP_TIMEOUT 120.0
#define HTTP_TRIES 8
/* Attempts at a host that has never answered: most likely its name is wrong. */
#define HTTP_TRIES_STRANGER 3

/* ---- life ------------------------------------------------------------------------------------ */

static struct http_config http_config_of(const struct zf_remote_opts *o)
{
    double total = o->timeout > 0 ? o->timeout : HTTP_TIMEOUT;
    const char *bundle = settings_env("CURL_CA_BUNDLE");

    bundle = o->cacert ? o->cacert : bundle ? bundle : settings_env("SSL_CERT_FILE");
    return (struct http_config){.cacert = bundle,
                                .capath = o->cacert ? NULL : settings_env("SSL_CERT_DIR"),
                                .netrc = settings_env("NETRC"),
                                .connect = total / 4 < 10 ? total / 4 : 10,
                                .stall = total / 4 < 20 ? total / 4 : 20,
                                .total = total,
                                .connections = o->connections ? o->connections : HTTP_CONNECTIONS};
}

struct http *http_new(const struct zf_remote_opts *o, struct zf_err *err)
{
    struct http *h = calloc(1, sizeof *h);

    if (!h)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    h->config = http_config_of(o);
    h->say = o->say;
    h->say_ctx = o->say_ctx;
    h->advise = o->advise;
    if (!lib_curl_load(err) || !http_queue_init(h, err)) {
        http_free(h);
        return NULL;
    }
    return h;
}

void http_free(struct http *h)
{
    if (h) {
        http_queue_fini(h);
        free(h);
    }
}

void http_advise(struct http *h, const char *line)
{
    if (h->advise)
        h->advise(h->say_ctx, line);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* The current URL, without secret parts; malloc'ed. */
static char *http_shown(const struct http_call *c)
{
    return c->ask.secret ? url_origin(c->at) : url_shown(c->at);
}

/* Puts the URL in front of the message, without parts that may be secret. */
static void http_name(struct http_call *c)
{
    zf_auto(mem) char *shown = http_shown(c);

    if (shown && !c->err.path[0])
        (void)zf_err_in(&c->err, "%s", shown);
}

static void http_say(struct http *h, const struct http_call *c, int result)
{
    zf_auto(mem) char *shown = h->say ? http_shown(c) : NULL;
    char line[512], range[64] = "";

    if (!shown)
        return;
    if (c->ask.len) {
        (void)snprintf(range, sizeof range, " bytes %llu-%llu", (unsigned long long)c->ask.off,
                       (unsigned long long)(c->ask.off + c->ask.len - 1));
    }
    (void)snprintf(line, sizeof line, "%s %.300s%s: %ld, %llu bytes%s%.64s", c->ask.method, shown,
                   range, c->head.status, (unsigned long long)(c->got ? c->got : c->body.n),
                   result ? ", " : "", result ? curl_easy_strerror((CURLcode)result) : "");
    h->say(h->say_ctx, line);
}

/* ---- one attempt ----------------------------------------------------------------------------- */

/* Performs the transfer.  Returns libcurl's CURLcode. */
static int http_perform(struct http *h, struct http_call *c)
{
    CURLM *multi = http_turn_multi(h, c->turn);
    CURLcode result = CURLE_OUT_OF_MEMORY;
    int running = 1, left;

    if (!multi || curl_multi_add_handle(multi, c->easy) != CURLM_OK)
        return (int)result;
    result = CURLE_ABORTED_BY_CALLBACK; /* unless it ends by itself */
    while (running && !atomic_load(&h->stop))
        if (curl_multi_perform(multi, &running) != CURLM_OK ||
            (running && curl_multi_poll(multi, NULL, 0, 1000, NULL) != CURLM_OK))
            break;
    for (CURLMsg *m; (m = curl_multi_info_read(multi, &left));)
        result = m->msg == CURLMSG_DONE ? m->data.result : result;
    (void)curl_multi_remove_handle(multi, c->easy);
    return (int)result;
}

static enum http_next http_attempt(struct http *h, struct http_call *c)
{
    const double began = http_now();

    zf_err_clear(&c->err);
    if (!http_call_sign(c, &c->err))
        return HTTP_BAD;
    const double now = http_now();
    c->turn->deadline += now - began; /* fetching credentials does not count towards the timeout */
    if (!http_call_begin(c, &h->config, c->turn->deadline - now, &c->err))
        return HTTP_BAD;
    c->tries++;
    atomic_fetch_add(&c->host->requests, 1);
    if (c->tries > 1 && c->redirects == 0)
        atomic_fetch_add(&c->host->retries, 1);
    const int result = http_perform(h, c);
    http_say(h, c, result); /* before a redirect changes the URL */
    const enum http_next next = http_call_judge(c, result);
    http_call_end(c);
    if (c->head.status)
        atomic_store(&c->host->answered, true);
    return next;
}

/* ---- retries --------------------------------------------------------------------------------- */

/* Is the deadline still ahead?  If not, c->err is set, unless an earlier attempt has set it. */
static bool http_in_time(struct http *h, struct http_call *c)
{
    return http_now() < c->turn->deadline ||
           (!c->err.msg[0] &&
            zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE,
                    "there was no answer within %.3g seconds (-o timeout=SECONDS allows more)",
                    h->config.total));
}

/* Waits before a retry.  False: no attempt or no time is left. */
static bool http_again(struct http *h, struct http_call *c)
{
    const unsigned most = c->ask.tries                      ? c->ask.tries
                          : atomic_load(&c->host->answered) ? HTTP_TRIES
                                                            : HTTP_TRIES_STRANGER;
    const double pause = http_call_pause(c);

    if (c->tries < most && http_now() + pause < c->turn->deadline) {
        http_turn_pause(h, c->turn, pause);
        return true;
    }
    const size_t n = strlen(c->err.msg);
    if (c->tries > 1)
        (void)snprintf(c->err.msg + n, sizeof c->err.msg - n, " (%u attempts)", c->tries);
    return false;
}

/* Follows a redirect.  The number of attempts starts again at 0; the deadline stays. */
static bool http_follow(struct http *h, struct http_call *c)
{
    struct http_host *host = http_host_for(h, c->at);

    c->host = host ? host : c->host;
    c->tries = 0;
    return host || zf_fail(&c->err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

/* Are there newer credentials now?  If not, c->err keeps the server's refusal. */
static bool http_renew(struct http_call *c)
{
    const struct http_reply refused = http_call_seen(c);

    return c->ask.auth->ops->renew(c->ask.auth, c->generation, &refused);
}

static bool http_run(struct http *h, struct http_call *c)
{
    for (bool more = true; more && !atomic_load(&h->stop) && http_in_time(h, c);) {
        const enum http_next next = http_attempt(h, c);

        if (next == HTTP_GOOD)
            return true;
        more = next == HTTP_AGAIN       ? http_again(h, c)
               : next == HTTP_ELSEWHERE ? http_follow(h, c)
                                        : next == HTTP_RENEW && http_renew(c);
    }
    if (atomic_load(&h->stop))
        (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE, "the request was cancelled");
    else
        atomic_fetch_add(&c->host->errors, 1);
    http_name(c);
    return false;
}

/* Queues a request that was not queued by http_later. */
static bool http_begin(struct http *h, struct http_call *c)
{
    struct http_turn *t = c->turn;

    if (t->run) {
        c->host = t->host;
        return true;
    }
    t->host = c->host = http_host_for(h, c->at);
    t->deadline = http_now() + (c->ask.timeout > 0 ? c->ask.timeout : h->config.total);
    if (!t->host)
        return zf_fail(&c->err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    /* A request for credentials is made by a thread that already holds a connection, so it must not wait for one. */
    http_turn_begin(h, t, c->ask.straight);
    return true;
}

bool http_do(struct http *h, const struct http_ask *ask, struct http_reply *out, struct zf_err *err)
{
    struct http_turn own = {.run = NULL};
    struct http_call c = {.turn = ask->turn ? ask->turn : &own};
    const bool ok = http_call_init(&c, ask) && http_begin(h, &c) && http_run(h, &c);

    http_turn_end(h, c.turn);
    http_call_reply(&c, out);
    if (!ok)
        *err = c.err;
    http_call_fini(&c);
    return ok;
}

/* ---- many requests --------------------------------------------------------------------------- */

struct http_each {
    const struct http_many *m;
    const size_t *at; /* indices that are due */
    atomic_size_t bad;
};

static void *http_each_one(void *ctx, uint64_t i, struct zf_err *err)
{
    struct http_each *e = ctx;

    if (e->m->ask(e->m->ctx, e->at[i], err))
        return e;
    for (size_t was = atomic_load(&e->bad);
         e->at[i] < was && !atomic_compare_exchange_weak(&e->bad, &was, e->at[i]);) {
    }
    return NULL;
}

bool http_each(struct http *h, const struct http_many *m, size_t n, size_t *bad_out,
               struct zf_err *err)
{
    zf_auto(mem) size_t *at = malloc((n + 1) * sizeof *at);
    struct http_each e = {.m = m, .at = at, .bad = SIZE_MAX};
    size_t due = 0;

    if (!at)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (size_t i = 0; i < n; i++) {
        at[due] = i;
        due += !m->due || m->due(m->ctx, i);
    }
    const bool ok = !due || zf_ahead_all((struct zf_ahead_work){.make = http_each_one,
                                                                .ctx = &e,
                                                                .most = h->config.connections,
                                                                .slow = true},
                                         due, err);
    *bad_out = ok || e.bad == SIZE_MAX ? 0 : e.bad;
    return ok;
}
