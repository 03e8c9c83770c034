/* SPDX-License-Identifier: Apache-2.0 */
/* Times in replies: "2026-01-02T03:04:05[.678]Z" or with an offset "+01:00" (ISO 8601 as S3, STS and
 * Google's JSON write it).  Those of HTTP headers are the transport's. */
#ifndef ZF_REMOTE_TIMESTAMP_H
#define ZF_REMOTE_TIMESTAMP_H

#include <time.h>

#include <zf/base/err.h>

/* False: of another form, or no such day. */
bool timestamp_iso(const char *text, struct timespec *out) ZF_CHECKED;

#endif
