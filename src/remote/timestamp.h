/* SPDX-License-Identifier: Apache-2.0 */
/* Times in replies, seconds since 1970. */
#ifndef REMOTE_TIMESTAMP_H
#define REMOTE_TIMESTAMP_H

#include <time.h>

#include <zf/base/err.h>

/* "2026-01-02T03:04:05[.678]Z", or with an offset "+01:00": ISO 8601 as S3, STS and JSON have it.  False: of another form, or
 * no such day. */
bool timestamp_iso(const char *text, struct timespec *out) ZF_CHECKED;

/* "Sun, 06 Nov 1994 08:49:37 GMT", of HTTP headers.  False: of another form, the obsolete ones of RFC 9110 included, or no
 * such day. */
bool timestamp_http(const char *text, time_t *out) ZF_CHECKED;

#endif
