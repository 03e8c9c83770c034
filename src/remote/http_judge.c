/* SPDX-License-Identifier: Apache-2.0 */
/* Judges an attempt: success, to be retried, or failed with a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/clock.h>
#include <zf/base/hash.h>

#include "libraries.h"
#include "http_inside.h"
#include "url.h"

/* ---- redirects ------------------------------------------------------------------------------- */

/* The absolute target URL of a redirect, malloc'ed.  NULL: the response is no redirect. */
static char *http_judge_target(const struct http_call *c)
{
    const long s = c->head.status;
    char *to = NULL;

    if ((s != 301 && s != 302 && s != 303 && s != 307 && s != 308) ||
        curl_easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &to) != CURLE_OK || !to)
        return NULL;
    return strndup(to, strcspn(to, "#"));
}

/* Follows or refuses a redirect.  Frees target. */
static enum http_next http_judge_redirect(struct http_call *c, char *target)
{
    zf_auto(mem) char *to = target;
    zf_auto(mem) char *shown = url_shown(to);
    struct zf_err why;

    const bool asks = strcmp(c->ask.method, "GET") == 0 || strcmp(c->ask.method, "HEAD") == 0;

    if (!asks || c->ask.straight) {
        (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE,
                      "the server redirects a request for credentials; zerofs neither sends them "
                      "to nor takes them from another server (status %ld)",
                      c->head.status);
    } else if (c->redirects >= HTTP_REDIRECTS) {
        (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE, "the server redirects more than %d times",
                      HTTP_REDIRECTS);
    } else if (!url_is_web(to)) {
        (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE,
                      "the server redirects to \"%.120s\", which is not an http or https address",
                      shown ? shown : "?");
    } else if (url_is(c->at, "https") && url_is(to, "http")) {
        (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE,
                      "the server redirects from https to \"%.120s\", which is not protected",
                      shown ? shown : "?");
    } else if (!url_check(to, &why)) {
        (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE, "the server redirects: %s", why.msg);
    } else {
        free(c->at);
        c->at = zf_give(to);
        c->redirects++;
        return HTTP_ELSEWHERE;
    }
    return HTTP_BAD;
}

/* ---- statuses -------------------------------------------------------------------------------- */

static bool http_judge_temporary(long status)
{
    return status == 408 || status == 429 || (status >= 500 && status != 501 && status != 505);
}

static const char *http_judge_advice(long status)
{
    switch (status) {
    case 401:
        return "; credentials are missing or wrong";
    case 403:
        return "; the credentials in use (or none) do not allow this";
    case 407:
        return "; the proxy needs credentials. Put them into its address in the environment";
    case 429:
    case 503:
        return "; the server is busy. Try again later, or with a smaller -o connections=N";
    default:
        return "";
    }
}

static enum zf_code http_judge_code(const struct http_call *c)
{
    long s = c->head.status;

    if (s == 412 || ((s == 404 || s == 410 || s == 416) && c->ask.same))
        return ZF_E_STALE;
    return s == 404 || s == 410 ? ZF_E_NOENT : ZF_E_IO;
}

/* Sets the message of the auth, which can parse the store's error documents.  False: there is none. */
static bool http_judge_explained(struct http_call *c)
{
    struct auth *a = c->ask.auth;

    if (!a || !a->ops->explain || !http_call_at_home(c))
        return false;
    const struct http_reply r = http_call_seen(c);
    (void)a->ops->explain(a, &r, false, &c->err);
    return true;
}

/* May newer credentials help?  They are requested once per call.  c->err is set already, for the case that there are
 * none. */
static bool http_judge_renewable(struct http_call *c)
{
    long s = c->head.status;

    if ((s != 400 && s != 401 && s != 403) || !c->ask.auth || !c->ask.auth->ops->renew ||
        c->renewed || !http_call_at_home(c))
        return false;
    c->renewed = true;
    return true;
}

static enum http_next http_judge_status(struct http_call *c)
{
    long s = c->head.status;
    char said[160], *to = http_judge_target(c);

    if (to)
        return http_judge_redirect(c, to);
    if (s == 416 && c->ask.to_end && !c->ask.same && c->head.unsatisfied && c->ask.off == 0 &&
        c->head.total == 0)
        return HTTP_GOOD;
    enum zf_code code = http_judge_code(c);
    http_body_words(c->body.p, c->body.n, said, sizeof said);
    if (code == ZF_E_STALE) {
        (void)zf_fail(&c->err, code, ZF_OFF_NONE,
                      s == 412   ? "the object was replaced after it was opened (status %ld)"
                      : s == 416 ? "the object became shorter after it was opened (status %ld)"
                                 : "the object was deleted after it was opened (status %ld)",
                      s);
        return HTTP_BAD;
    }
    /* 407 comes from a proxy, not from the store. */
    if (!http_judge_temporary(s) && s != 407 && http_judge_explained(c))
        return http_judge_renewable(c) ? HTTP_RENEW : HTTP_BAD;
    (void)zf_fail(&c->err, code, ZF_OFF_NONE, "the server answers %ld%s%s%s%s%s%s", s,
                  c->head.reason[0] ? " " : "", c->head.reason, said[0] ? " (" : "", said,
                  said[0] ? ")" : "", http_judge_advice(s));
    return http_judge_temporary(s) ? HTTP_AGAIN : http_judge_renewable(c) ? HTTP_RENEW : HTTP_BAD;
}

/* ---- libcurl's failures ---------------------------------------------------------------------- */

/* libcurl's transient errors.  All others are permanent: a certificate that does not verify, say. */
static bool http_judge_passing(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_AGAIN:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: /* an invalid HTTP version: garbage */
        return true;
    default:
        return false;
    }
}

static const char *http_judge_hint(CURLcode code)
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return ". Name the certificate authority to trust with -o cacert=FILE";
    case CURLE_COULDNT_RESOLVE_HOST:
        return "; is the host's name right, and the network up?";
    case CURLE_COULDNT_CONNECT:
        return "; is the server up, and the port right?";
    default:
        return "";
    }
}

/* The status with which a proxy refused the tunnel to the host; 0 = it did not refuse. */
static long http_judge_proxy_status(const struct http_call *c)
{
    long status = 0;

    (void)curl_easy_getinfo(c->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    return c->head.status == 0 && status >= 300 ? status : 0;
}

static enum http_next http_judge_proxy(struct http_call *c, long status)
{
    (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE, "the proxy answers %ld%s", status,
                  http_judge_advice(status));
    return http_judge_temporary(status) ? HTTP_AGAIN : HTTP_BAD;
}

static enum http_next http_judge_failure(struct http_call *c, CURLcode code)
{
    /* libcurl's messages about a proxy contain its URL with the password, so they are not shown. */
    const bool proxy = code == CURLE_COULDNT_RESOLVE_PROXY || strcasestr(c->said, "proxy");
    const char *why = c->said[0] && !proxy ? c->said : curl_easy_strerror(code);
    const char *hint = proxy ? ". Check the proxy's address in the environment (https_proxy, "
                               "http_proxy or all_proxy)"
                             : http_judge_hint(code);
    size_t n = strcspn(why, "\r\n");

    if (code == CURLE_OUT_OF_MEMORY || c->body.bad || c->lines.bad) {
        (void)zf_fail(&c->err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return HTTP_BAD;
    }
    (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE, "cannot fetch it: %.*s%s",
                  (int)(n < 180 ? n : 180), why, hint);
    return http_judge_passing(code) ? HTTP_AGAIN : HTTP_BAD;
}

/* Judges a successful transfer: the body must have the announced length.  Without an announced length, a truncated body
 * cannot be detected. */
static enum http_next http_judge_good(struct http_call *c)
{
    if (!c->checked && !http_call_check(c))
        return HTTP_BAD;
    if (strcmp(c->ask.method, "HEAD") == 0 || c->want == HTTP_SIZE_UNKNOWN || c->got == c->want)
        return HTTP_GOOD;
    if (c->got < c->want) {
        (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE,
                      "the server sent %llu bytes of %llu and closed the connection",
                      (unsigned long long)c->got, (unsigned long long)c->want);
        return HTTP_AGAIN;
    }
    (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE, "the server sends %llu bytes, but announced %llu",
                  (unsigned long long)c->got, (unsigned long long)c->want);
    return HTTP_BAD;
}

enum http_next http_call_judge(struct http_call *c, int result)
{
    CURLcode code = (CURLcode)result;
    bool whole = code == CURLE_OK;

    if (c->refused)
        return HTTP_BAD; /* c->err is already set */
    if (c->body.bad || c->lines.bad) {
        (void)zf_fail(&c->err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return HTTP_BAD;
    }
    if (c->head.status >= 300 && (whole || c->body.n >= HTTP_SAID_MOST))
        return http_judge_status(c);
    const long proxy = whole ? 0 : http_judge_proxy_status(c);
    if (proxy)
        return http_judge_proxy(c, proxy);
    if (whole && c->head.status < 200) {
        (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE, "the server does not speak HTTP");
        return HTTP_AGAIN;
    }
    return whole ? http_judge_good(c) : http_judge_failure(c, code);
}

/* ---- pauses ---------------------------------------------------------------------------------- */

double http_call_pause(const struct http_call *c)
{
    double most = 0.1;
    const uint64_t key[3] = {(uintptr_t)c, c->tries, (uint64_t)zf_clock_ns()};

    if (c->head.retry_after >= 0 && http_judge_temporary(c->head.status))
        return c->head.retry_after;
    for (unsigned i = 1; i < c->tries && most < 5; i++)
        most *= 2;
    /* Jitter: between half and all of it, so that requests that failed together are not retried together. */
    return most * (.5 + (double)(zf_hash(0, key, sizeof key) % 1000) / 2000);
}
