/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a response.  Grammar: RFC 9110 (fields, dates, ranges), RFC 9112 (status
 * line). */
#ifndef REMOTE_HTTP_HEAD_H
#define REMOTE_HTTP_HEAD_H

#include "http.h"

struct http_head {
    long status;
    char reason[64]; /* "Not Found"; "" */
    struct http_object object;
    bool has_length, has_range, unsatisfied, chunked;
    bool bad_range;          /* Content-Range cannot be parsed */
    const char *twice;       /* name of a field that came with two values; NULL = none did */
    uint64_t length;         /* Content-Length */
    uint64_t first, last;    /* Content-Range */
    uint64_t total;          /* of it, also where it is unsatisfied; HTTP_SIZE_UNKNOWN: '*' */
    bool encoded, multipart; /* a coding other than identity and chunked; multipart/byteranges */
    double retry_after;      /* seconds from now; negative: not said */
    bool linked; /* object has the size and tag that a redirect promised of its target */
};

/* Before the first line of an answer.  Properties that a redirect promised of its target stay. */
void http_head_begin(struct http_head *h);

/* One line as it came, with or without its end.  now: seconds since 1970. */
void http_head_line(struct http_head *h, const char *line, size_t n, time_t now);

/* "Sun, 06 Nov 1994 08:49:37 GMT".  False for the obsolete forms, and for all else. */
bool http_date(const char *text, time_t *out);

#endif
