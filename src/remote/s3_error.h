/* SPDX-License-Identifier: Apache-2.0 */
/* Turns error documents of an object store (or STS) into messages for the user. */
#ifndef ZF_REMOTE_S3_ERROR_H
#define ZF_REMOTE_S3_ERROR_H

#include <time.h>

#include <zf/base/err.h>

struct s3_error {
    char code[64];     /* "NoSuchKey"; "" = none */
    char message[160]; /* the server's message, one line, perhaps truncated */
    char region[40];   /* region of the bucket; "" = unknown */
    time_t server;     /* the server's time; 0 = unknown */
};

/* The refused request. */
struct s3_asked {
    const char *store; /* "S3", "Google Cloud Storage" */
    const char *bucket;
    const char
        *from; /* origin of the credentials, for messages; NULL: the request was not signed */
    const char *region; /* region for which it was signed */
    bool google;        /* messages name Google's variables and permissions */
    bool listing;
    time_t now;
};

/* Reads a body: <Error>, or STS' <ErrorResponse>.  Any other document leaves *out empty. */
void s3_error_read(struct s3_error *out, const void *p, size_t n);

/* Fills *err, with fault and remedy, for a status of 300 or more.  Always returns false.  ZF_E_UNSUPPORTED: listing is
 * denied, but known names may still be readable. */
bool s3_error_fail(const struct s3_error *e, long status, const struct s3_asked *asked,
                   struct zf_err *err);

/* Have the credentials expired? */
bool s3_error_expired(const struct s3_error *e);
/* Is the key unknown to the server, perhaps because it was revoked? */
bool s3_error_unknown_key(const struct s3_error *e);

#endif
