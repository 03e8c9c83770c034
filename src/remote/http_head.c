/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a response.  Grammar: RFC 9110 (fields, dates, ranges), RFC 9112 (status
 * line). */
#include "http_inside.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <zf/base/num.h>

#include "timestamp.h"

/* At least one digit, and nothing that overflows. */
static bool http_head_digits(const char **p, uint64_t *out)
{
    const char *begin = *p;
    uint64_t v = 0;

    for (; isdigit((unsigned char)**p); (*p)++)
        if (!zf_mul_add(v, 10, (uint64_t)(**p - '0'), &v))
            return false;
    *out = v;
    return *p > begin;
}

static bool http_head_number(const char *text, uint64_t *out)
{
    return http_head_digits(&text, out) && *text == '\0';
}

/* "bytes 0-9/100", "bytes 0-9/" followed by '*', and the like with '*' in front of '/'. */
static bool http_content_range(const char *text, struct http_head *out)
{
    uint64_t first = 0, last = 0, total = HTTP_SIZE_UNKNOWN;
    bool none;

    if (strncasecmp(text, "bytes", 5) != 0 || text[5] != ' ')
        return false;
    text += 6;
    none = *text == '*';
    if (none)
        text++;
    else if (!http_head_digits(&text, &first) || *text++ != '-' || !http_head_digits(&text, &last))
        return false;
    if (*text++ != '/')
        return false;
    if (strcmp(text, "*") != 0 && !http_head_number(text, &total))
        return false;
    if (none ? total == HTTP_SIZE_UNKNOWN : last < first || last >= total || last == UINT64_MAX)
        return false;
    out->unsatisfied = none;
    out->has_range = !none;
    out->first = first;
    out->last = last;
    out->total = total;
    return true;
}

void http_head_begin(struct http_head *h)
{
    const struct http_object promised = h->object;

    *h = (struct http_head){.object = h->linked ? promised : HTTP_OBJECT_UNKNOWN,
                            .linked = h->linked,
                            .total = HTTP_SIZE_UNKNOWN,
                            .retry_after = -1};
}

/* A tag that does not fit, or is malformed, counts as not sent: truncated, two different tags could become equal. */
static void http_head_tag(struct http_head *h, const char *name, char *out, size_t room,
                          const char *value)
{
    size_t n = strlen(value);

    if (n < room) {
        h->twice = out[0] && strcmp(out, value) != 0 ? name : h->twice;
        memcpy(out, value, n + 1);
    }
}

static void http_head_length(struct http_head *h, const char *value)
{
    const uint64_t was = h->length;
    const bool had = h->has_length;

    h->has_length = http_head_number(value, &h->length);
    h->twice = had && (!h->has_length || h->length != was) ? "Content-Length" : h->twice;
}

static void http_head_range(struct http_head *h, const char *value)
{
    const struct http_head was = *h;

    h->bad_range = !http_content_range(value, h) || was.bad_range;
    if ((was.has_range || was.unsatisfied) &&
        (was.has_range != h->has_range || was.first != h->first || was.last != h->last ||
         was.total != h->total))
        h->twice = "Content-Range";
}

static void http_head_retry(struct http_head *h, const char *value, time_t now)
{
    uint64_t seconds;
    time_t when;

    if (http_head_number(value, &seconds))
        h->retry_after = seconds > 86400 ? 86400 : (double)seconds;
    else if (timestamp_http(value, &when))
        h->retry_after = when > now ? (double)(when - now) : 0;
}

/* X-Linked-…: properties of a redirect's target, as the Hugging Face hub sends them (huggingface_hub
 * 0.26, constants.py, HUGGINGFACE_HEADER_X_LINKED_ETAG). */
static void http_head_linked(struct http_head *h, const char *name, const char *value)
{
    uint64_t size;

    if (strcasecmp(name, "x-linked-etag") == 0) {
        h->object.etag[0] = '\0'; /* the redirect's own ETag is not the target's */
        http_head_tag(h, "X-Linked-ETag", h->object.etag, sizeof h->object.etag, value);
        h->linked = true;
    } else if (strcasecmp(name, "x-linked-size") == 0 && http_head_number(value, &size)) {
        h->object.size = size;
    }
}

static void http_head_field(struct http_head *h, const char *name, const char *value, time_t now)
{
    time_t when;

    if (strcasecmp(name, "content-length") == 0) {
        http_head_length(h, value);
    } else if (strcasecmp(name, "content-range") == 0) {
        http_head_range(h, value);
    } else if (strcasecmp(name, "content-encoding") == 0) {
        h->encoded = h->encoded || (value[0] && strcasecmp(value, "identity") != 0);
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        h->chunked = true;
        h->encoded = h->encoded || strcasecmp(value, "chunked") != 0;
    } else if (strcasecmp(name, "content-type") == 0) {
        h->multipart = strncasecmp(value, "multipart/byteranges", 20) == 0;
    } else if (strcasecmp(name, "etag") == 0 && !h->linked) {
        http_head_tag(h, "ETag", h->object.etag, sizeof h->object.etag, value);
    } else if (strcasecmp(name, "last-modified") == 0 && timestamp_http(value, &when)) {
        h->object.mtime.tv_sec = when;
    } else if (strcasecmp(name, "date") == 0 && timestamp_http(value, &when)) {
        h->object.date = when;
    } else if (strcasecmp(name, "x-amz-version-id") == 0 ||
               strcasecmp(name, "x-goog-generation") == 0) {
        http_head_tag(h, "the version", h->object.version, sizeof h->object.version, value);
    } else if (strcasecmp(name, "retry-after") == 0) {
        http_head_retry(h, value, now);
    } else {
        http_head_linked(h, name, value);
    }
}

static void http_head_status(struct http_head *h, const char *line)
{
    unsigned status = 0;
    int at = 0;

    http_head_begin(h);
    if (sscanf(line, "HTTP/%*[0-9.] %3u%n", &status, &at) == 1 && at > 0) {
        h->status = (long)status;
        (void)snprintf(h->reason, sizeof h->reason, "%.63s", line[at] == ' ' ? line + at + 1 : "");
    }
}

void http_head_line(struct http_head *h, const char *line, size_t n, time_t now)
{
    char text[2048];

    while (n && (line[n - 1] == '\n' || line[n - 1] == '\r' || line[n - 1] == ' ' ||
                 line[n - 1] == '\t'))
        n--;
    /* No field that is used is that long. */
    if (n == 0 || memchr(line, '\0', n))
        return;
    n = n < sizeof text - 1 ? n : sizeof text - 1;
    memcpy(text, line, n);
    text[n] = '\0';
    if (strncmp(text, "HTTP/", 5) == 0) {
        http_head_status(h, text);
        return;
    }
    char *value = strchr(text, ':');
    if (!value)
        return;
    *value++ = '\0';
    http_head_field(h, text, value + strspn(value, " \t"), now);
}
