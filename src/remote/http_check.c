/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a response against its request.  A range must come with status 206, with exactly the requested bytes, from the
 * object that was first seen; a response for which this cannot be proved is refused. */
#include <inttypes.h>
#include <string.h>

#include "http_inside.h"

bool http_object_exact(const struct http_object *o)
{
    return o->version[0] || (o->etag[0] && strncmp(o->etag, "W/", 2) != 0);
}

/* "mtime-size" of nginx, "size-mtime" and "inode-size-mtime" of Apache, all hexadecimal.  Sources:
 * ngx_http_set_etag of nginx 1.22, ap_make_etag of httpd 2.4. */
static bool http_tag_is_time(const char *etag)
{
    size_t parts = 0;

    if (*etag++ != '"')
        return false;
    do {
        const size_t n = strspn(etag, "0123456789abcdefABCDEF");

        if (n == 0 || n > 16)
            return false;
        etag += n;
        parts++;
    } while (*etag++ == '-');
    return etag[-1] == '"' && *etag == '\0' && (parts == 2 || parts == 3);
}

bool http_object_settled(const struct http_object *o, bool content_hash)
{
    if (o->version[0] || (content_hash && http_object_exact(o)))
        return true;
    return o->mtime.tv_sec ? o->date && o->date - o->mtime.tv_sec >= HTTP_OLD_SECONDS
                           : http_object_exact(o) && !http_tag_is_time(o->etag);
}

static bool http_check_stale(struct zf_err *err, const char *what)
{
    return zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "the object was replaced after it was opened: %s",
                   what);
}

bool http_object_same(const struct http_object *was, const struct http_object *is,
                      struct zf_err *err)
{
    if (was->size != HTTP_SIZE_UNKNOWN && is->size != HTTP_SIZE_UNKNOWN && was->size != is->size) {
        return zf_fail(err, ZF_E_STALE, ZF_OFF_NONE,
                       "the object was replaced after it was opened: it had %" PRIu64
                       " bytes, now it has %" PRIu64,
                       was->size, is->size);
    }
    if (was->version[0] && strcmp(was->version, is->version) != 0)
        return http_check_stale(err, "its version changed");
    if (was->etag[0] && strcmp(was->etag, is->etag) != 0)
        return http_check_stale(err, is->etag[0] ? "its ETag changed" : "its ETag is gone");
    /* A strong ETag is more precise than a time in whole seconds. */
    if (!http_object_exact(was) && was->mtime.tv_sec && was->mtime.tv_sec != is->mtime.tv_sec)
        return http_check_stale(err, "its Last-Modified changed");
    return true;
}

static bool http_check_range(const struct http_ask *ask, const struct http_head *h,
                             struct zf_err *err)
{
    if (h->status != 206) {
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                       "the server answers a request for a part of the file with status %ld, not "
                       "206: it does not serve ranges, which zerofs needs. Use nginx, Apache or "
                       "Caddy, not python -m http.server",
                       h->status);
    }
    if (h->multipart || h->bad_range || !h->has_range) {
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "the answer to a request for one range %s",
                       h->multipart   ? "is multipart/byteranges"
                       : h->bad_range ? "has an invalid Content-Range"
                                      : "has no Content-Range");
    }
    uint64_t n = h->last - h->first + 1;
    bool fits = n == ask->len || (ask->to_end && n < ask->len && h->total != HTTP_SIZE_UNKNOWN &&
                                  h->last + 1 == h->total);
    if (h->first != ask->off || !fits || (h->has_length && h->length != n)) {
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                       "bytes %" PRIu64 " to %" PRIu64
                       " were asked for, but the server sends %" PRIu64 " to %" PRIu64 "%s",
                       ask->off, ask->off + ask->len - 1, h->first, h->last,
                       h->has_length && h->length != n ? " with another Content-Length" : "");
    }
    return h->total != HTTP_SIZE_UNKNOWN || (ask->same && ask->same->size != HTTP_SIZE_UNKNOWN) ||
           zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "the server does not give the size of the object");
}

bool http_check(const struct http_ask *ask, const struct http_head *h, struct zf_err *err)
{
    if (h->encoded) {
        return zf_fail(
            err, ZF_E_IO, ZF_OFF_NONE,
            "the answer has a Content-Encoding, so its bytes are not those of the object");
    }
    if (h->twice || (h->has_length && h->chunked)) {
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "the answer contradicts itself: it has %s%s",
                       h->twice ? h->twice : "Content-Length and Transfer-Encoding",
                       h->twice ? " twice, with two values" : "");
    }
    if (ask->len && !http_check_range(ask, h, err))
        return false;
    /* 203: a proxy changed the bytes; 204 and 206: not the whole object. */
    if (!ask->len && h->status != 200) {
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                       "the server answers with status %ld where 200 was expected", h->status);
    }
    struct http_object now = h->object;

    if (ask->len)
        now.size = h->total;
    else if (h->has_length)
        now.size = h->length;
    return !ask->same || http_object_same(ask->same, &now, err);
}

/* ---- the server's own words ------------------------------------------------------------------ */

/* The text between the two in the body; false when it is not there. */
static bool http_check_between(const char *body, size_t n_body, const char *open, const char *close,
                               struct zf_out *out)
{
    const char *at = memmem(body, n_body, open, strlen(open));

    if (!at)
        return false;
    at += strlen(open);
    const char *end = memmem(at, n_body - (size_t)(at - body), close, strlen(close));
    if (!end || end == at)
        return false;
    if (out->n)
        zf_out_str(out, ": ");
    zf_out_add(out, at, (size_t)(end - at));
    return true;
}

/* Of S3's XML, JSON of the usual kinds, an HTML page's title, or a short text. */
static void http_check_words(const char *body, size_t n, struct zf_out *out)
{
    bool code = http_check_between(body, n, "<Code>", "</Code>", out);

    if (http_check_between(body, n, "<Message>", "</Message>", out) || code ||
        http_check_between(body, n, "\"message\":\"", "\"", out) ||
        http_check_between(body, n, "\"message\": \"", "\"", out) ||
        http_check_between(body, n, "\"error\":\"", "\"", out) ||
        http_check_between(body, n, "<title>", "</title>", out) || body[0] == '<' || body[0] == '{')
        return;
    zf_out_add(out, body, strcspn(body, "\r\n"));
}

void http_body_words(const char *body, size_t n_body, char *out, size_t n)
{
    zf_auto(out) struct zf_out o = {0};

    out[0] = '\0';
    if (n_body == 0 || n < 8)
        return;
    http_check_words(body, n_body, &o);
    if (o.n && !o.bad) {
        size_t len = o.n < n - 1 ? o.n : n - 1;

        memcpy(out, o.p, len);
        out[len] = '\0';
        for (size_t i = 0; i < len; i++)
            out[i] = (unsigned char)out[i] < ' ' ? ' ' : out[i];
    }
}
