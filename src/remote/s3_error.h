/* SPDX-License-Identifier: Apache-2.0 */
/* Error documents of an object store (or STS) as sentences for the user. */
#ifndef ZF_REMOTE_S3_ERROR_H
#define ZF_REMOTE_S3_ERROR_H

#include <time.h>

#include <zf/base/err.h>

struct s3_error {
    char code[64];     /* "NoSuchKey"; "": the body does not say */
    char message[160]; /* the server's own words, one line, cut */
    char region[40];   /* where the bucket is; "": not said */
    time_t server;     /* its clock, 0: not said */
};

/* The refused request. */
struct s3_asked {
    const char *store; /* "S3", "Google Cloud Storage" */
    const char *bucket;
    const char *from;   /* where the credentials came from; NULL: the request was not signed */
    const char *region; /* that it was signed for */
    bool google;        /* messages name Google's variables and permissions */
    bool listing;
    time_t now;
};

/* Reads a body: <Error>, or STS' <ErrorResponse>.  Any other document leaves *out empty. */
void s3_error_read(struct s3_error *out, const void *p, size_t n);

/* Fills *err for a status of 300 or more: the fault and the remedy.  False always.  ZF_E_UNSUPPORTED: listing is denied, so
 * that known names may still be read. */
bool s3_error_fail(const struct s3_error *e, long status, const struct s3_asked *asked,
                   struct zf_err *err);

/* Have the credentials run out? */
bool s3_error_expired(const struct s3_error *e);
/* Does the server not know the key, perhaps not any more? */
bool s3_error_unknown_key(const struct s3_error *e);

#endif
