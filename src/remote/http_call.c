/* SPDX-License-Identifier: Apache-2.0 */
/* One request: its easy handle, its headers, and the response as it arrives. */
#include "http_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "libraries.h"
#include "url.h"

_Static_assert(sizeof((struct http_call *)0)->said >= CURL_ERROR_SIZE, "libcurl's own size");

/* ---- life ------------------------------------------------------------------------------------ */

bool http_call_init(struct http_call *c, const struct http_ask *ask)
{
    c->ask = *ask;
    c->ask.method = ask->method ? ask->method : "GET";
    c->ask.max_body = ask->max_body ? ask->max_body : 1 << 20;
    http_head_begin(&c->head);
    if (!url_check(ask->url, &c->err))
        return false;
    c->at = strdup(ask->url);
    c->origin = url_origin(ask->url);
    return (c->at && c->origin) || zf_fail(&c->err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

void http_call_fini(struct http_call *c)
{
    http_call_end(c);
    headers_fini(&c->sign);
    free(c->origin);
    free(c->at);
    free(c->lines.p);
    free(c->body.p);
}

/* ---- the request --------------------------------------------------------------------------- */

bool http_call_at_home(const struct http_call *c)
{
    zf_auto(mem) char *origin = url_origin(c->at);

    return origin && strcmp(origin, c->origin) == 0;
}

/* Adds conditions (If-Match …) that make the server refuse a changed object.  An ETag announced by a redirect is not
 * necessarily the ETag of its target. */
static bool http_call_add_same(const struct http_call *c, struct headers *h, struct zf_err *err)
{
    const struct http_object *o = c->ask.same;
    static const char day[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char month[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                    "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    char date[64];
    struct tm t;

    if (!o || strcmp(c->ask.method, "GET") != 0)
        return true;
    if (o->etag[0] && strncmp(o->etag, "W/", 2) != 0)
        return headers_add(h, "If-Match", o->etag, err);
    if (!o->mtime.tv_sec || !gmtime_r(&o->mtime.tv_sec, &t))
        return true;
    /* Not strftime, whose names of days and months depend on the locale. */
    (void)snprintf(date, sizeof date, "%s, %02d %s %d %02d:%02d:%02d GMT", day[t.tm_wday],
                   t.tm_mday, month[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
    return headers_add(h, "If-Unmodified-Since", date, err);
}

/* Header lines besides libcurl's own; another host than the first gets no credentials. */
static bool http_call_lines(const struct http_call *c, struct headers *h, struct zf_err *err)
{
    bool home = http_call_at_home(c), ok = true;
    char range[64];

    if (c->ask.len) {
        (void)snprintf(range, sizeof range, "bytes=%llu-%llu", (unsigned long long)c->ask.off,
                       (unsigned long long)(c->ask.off + c->ask.len - 1));
        ok = headers_add(h, "Range", range, err);
    }
    for (size_t i = 0; ok && home && i < c->ask.n_header; i++)
        ok = headers_add_line(h, c->ask.header[i], err);
    return ok && (!home || http_call_add_same(c, h, err));
}

bool http_call_sign(struct http_call *c, struct zf_err *err)
{
    zf_auto(headers) struct headers h = {.n = 0};

    headers_fini(&c->sign);
    if (!c->ask.auth || !http_call_at_home(c))
        return true;
    if (!http_call_lines(c, &h, err))
        return false;
    const struct auth_ask ask = {.method = c->ask.method,
                                 .url = c->at,
                                 .header = (const char *const *)h.line,
                                 .n_header = h.n,
                                 .body = c->ask.body,
                                 .n_body = c->ask.n_body};
    return c->ask.auth->ops->sign(c->ask.auth, &ask, &c->sign, &c->generation, err);
}

/* ---- the answer --------------------------------------------------------------------------- */

/* Receives header lines.  Trailer lines, which follow the body, are ignored: the header was already checked. */
static size_t http_call_on_head(char *p, size_t size, size_t n, void *ctx)
{
    struct http_call *c = ctx;

    n *= size;
    if (c->lines.n + c->trailer + n > HTTP_HEAD_MOST) {
        c->refused = true;
        (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE, "the answer has more than %u bytes of headers",
                      HTTP_HEAD_MOST);
        return 0;
    }
    if (c->over) {
        c->trailer += n;
        return n;
    }
    if (n > 5 && memcmp(p, "HTTP/", 5) == 0)
        c->last = c->lines.n;
    zf_out_add(&c->lines, p, n);
    http_head_line(&c->head, p, n, time(NULL));
    /* The empty line ends the header, as for libcurl; after an interim response (1xx) another header follows. */
    c->over = n && (p[0] == '\r' || p[0] == '\n') && c->head.status >= 200;
    return n;
}

bool http_call_check(struct http_call *c)
{
    const struct http_head *h = &c->head;

    c->checked = c->over = true;
    c->want = c->ask.len ? h->last - h->first + 1 : h->has_length ? h->length : HTTP_SIZE_UNKNOWN;
    return http_check(&c->ask, h, &c->err);
}

static bool http_call_succeeded(const struct http_call *c)
{
    return c->head.status >= 200 && c->head.status < 300;
}

static size_t http_call_too_long(struct http_call *c, const char *what)
{
    c->refused = true;
    (void)zf_fail(&c->err, ZF_E_IO, ZF_OFF_NONE, "the server sends more than the %s", what);
    return 0;
}

/* Receives bytes of a range whose header was checked. */
static size_t http_call_on_range(struct http_call *c, const char *p, size_t n)
{
    if (n > c->want - c->got)
        return http_call_too_long(c, "bytes it announced");
    if (c->ask.sink.put)
        c->ask.sink.put(c->ask.sink.ctx, c->got, p, n);
    else
        zf_out_add(&c->body, p, n);
    c->got += n;
    return n;
}

/* Reports the object of the response to the sink, before the first byte. */
static bool http_call_object_known(struct http_call *c)
{
    struct http_object is = c->head.object;

    is.size = c->ask.len ? c->head.total : is.size;
    return !c->ask.sink.begin ||
           c->ask.sink.begin(c->ask.sink.ctx, &is, c->head.has_length, &c->err);
}

static size_t http_call_on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct http_call *c = ctx;

    n *= size;
    atomic_fetch_add_explicit(&c->host->bytes, n, memory_order_relaxed);
    if (!http_call_succeeded(c)) {
        size_t room = HTTP_SAID_MOST - c->body.n;

        zf_out_add(&c->body, p, n < room ? n : room);
        return n <= room ? n : 0;
    }
    if (!c->checked)
        c->refused = !http_call_check(c) || !http_call_object_known(c);
    if (c->refused)
        return 0;
    if (c->ask.len)
        return http_call_on_range(c, p, n);
    if (n > c->ask.max_body - c->body.n) {
        c->refused = true;
        (void)zf_fail(&c->err, ZF_E_LIMIT, ZF_OFF_NONE,
                      "the answer has more than the %llu bytes expected here",
                      (unsigned long long)c->ask.max_body);
        return 0;
    }
    zf_out_add(&c->body, p, n);
    c->got += n;
    return n;
}

/* ---- the attempt ----------------------------------------------------------------------------- */

static bool http_call_append(struct http_call *c, const char *line, struct zf_err *err)
{
    struct curl_slist *more = curl_slist_append(c->list, line);

    c->list = more ? more : c->list;
    return more || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

static bool http_call_headers(struct http_call *c, struct zf_err *err)
{
    zf_auto(headers) struct headers h = {.n = 0};
    bool ok = http_call_lines(c, &h, err) && http_call_append(c, "Accept-Encoding: identity", err);

    for (size_t i = 0; ok && i < h.n; i++)
        ok = http_call_append(c, h.line[i], err);
    for (size_t i = 0; ok && i < c->sign.n; i++)
        ok = http_call_append(c, c->sign.line[i], err);
    /* No "Expect: 100-continue", whose answer libcurl waits for. */
    return ok && (!c->ask.n_body || http_call_append(c, "Expect:", err));
}

static void http_call_method(const struct http_call *c, CURL *e)
{
    if (strcmp(c->ask.method, "HEAD") == 0) {
        (void)curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
    } else if (strcmp(c->ask.method, "GET") != 0) {
        (void)curl_easy_setopt(e, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, c->ask.method);
        (void)curl_easy_setopt(e, CURLOPT_POSTFIELDS,
                               c->ask.n_body ? (const char *)c->ask.body : "");
        (void)curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->ask.n_body);
    }
}

/* Restricts libcurl to http and https, with TLS verification and without following redirects, which is done by us. */
static void http_call_bounds(CURL *e, const struct http_config *w, double left)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    (void)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    (void)curl_easy_setopt(e, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    /* Do not wait for a hanging resolver. */
    (void)curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
#endif
    (void)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
    (void)curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
    if (w->cacert)
        (void)curl_easy_setopt(e, CURLOPT_CAINFO, w->cacert);
    if (w->capath)
        (void)curl_easy_setopt(e, CURLOPT_CAPATH, w->capath);
    (void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)(w->connect * 1000));
    (void)curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)(w->stall < 1 ? 1 : w->stall));
    (void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(left < .001 ? 1 : left * 1000));
}

static void http_call_plain(struct http_call *c, CURL *e)
{
    (void)curl_easy_setopt(e, CURLOPT_URL, c->at);
    (void)curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(e, CURLOPT_NOPROGRESS, 1L);
    (void)curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    /* Over HTTP/2 all requests would share one connection and its window. */
    (void)curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(e, CURLOPT_USERAGENT, "zerofs");
    (void)curl_easy_setopt(e, CURLOPT_BUFFERSIZE, 256L << 10);
    (void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->said);
    (void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->list);
    (void)curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, http_call_on_head);
    (void)curl_easy_setopt(e, CURLOPT_HEADERDATA, c);
    (void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, http_call_on_body);
    (void)curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
    /* A proxy's headers in front of the tunnel are not the server's answer. */
    (void)curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
}

bool http_call_begin(struct http_call *c, const struct http_config *config, double left,
                     struct zf_err *err)
{
    CURL *e = curl_easy_init();

    c->easy = e;
    if (!e || !http_call_headers(c, err)) {
        http_call_end(c);
        return e ? false : zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    if (!c->redirects) {
        zf_out_cut(&c->lines, 0);
        c->head.linked = false;
    }
    http_head_begin(&c->head);
    zf_out_cut(&c->body, 0);
    c->got = c->trailer = 0;
    c->want = HTTP_SIZE_UNKNOWN;
    c->over = c->checked = c->refused = false;
    c->said[0] = '\0';
    http_call_plain(c, e);
    http_call_bounds(e, config, left);
    http_call_method(c, e);
    if (c->ask.netrc && http_call_at_home(c)) {
        (void)curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
        (void)curl_easy_setopt(e, CURLOPT_NETRC_FILE, config->netrc);
    }
    return true;
}

void http_call_end(struct http_call *c)
{
    if (c->easy)
        curl_easy_cleanup(c->easy);
    curl_slist_free_all(c->list);
    c->easy = c->list = NULL;
}

struct http_reply http_call_seen(const struct http_call *c)
{
    return (struct http_reply){.status = c->head.status,
                               .body = (uint8_t *)c->body.p,
                               .n_body = c->body.n,
                               .head = c->lines.p,
                               .last = c->last};
}

void http_call_reply(struct http_call *c, struct http_reply *out)
{
    *out = (struct http_reply){.status = c->head.status, .object = c->head.object};
    if (c->ask.len && c->head.has_range) {
        out->object.size = c->head.total;
        out->len = c->got;
    } else if (c->ask.len && c->head.unsatisfied) {
        out->object.size = c->head.total;
    } else if (!c->ask.len && c->head.has_length && out->object.size == HTTP_SIZE_UNKNOWN) {
        out->object.size = c->head.length;
    }
    out->url = c->at ? strdup(c->at) : NULL;
    zf_out_str(&c->body, "");
    out->n_body = c->body.n;
    out->body = c->body.p ? (uint8_t *)c->body.p : calloc(1, 1);
    out->head = c->lines.p ? c->lines.p : calloc(1, 1);
    out->last = c->last;
    c->body = c->lines = (struct zf_out){0};
}
