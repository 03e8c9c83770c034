/* SPDX-License-Identifier: Apache-2.0 */
/* Times in replies, seconds since 1970. */
#ifndef REMOTE_TIMESTAMP_H
#define REMOTE_TIMESTAMP_H

#include <time.h>

#include <zf/base/err.h>

/* Parses ISO 8601 as in S3, STS and JSON: "2026-01-02T03:04:05[.678]Z", or with an offset "+01:00".  False: another format,
 * or no such day. */
bool timestamp_iso(const char *text, struct timespec *out) ZF_CHECKED;

/* Parses the time in an HTTP header, "Sun, 06 Nov 1994 08:49:37 GMT".  False: another format (also the obsolete ones of RFC
 * 9110), or no such day. */
bool timestamp_http(const char *text, time_t *out) ZF_CHECKED;

#endif
