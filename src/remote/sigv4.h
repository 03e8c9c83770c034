/* SPDX-License-Identifier: Apache-2.0 */
/* AWS Signature Version 4, for S3 and compatible stores and for STS.  A pure function: even the time is an argument, so that
 * its result can be compared with botocore's (tests/remote/test_aws.py).
 *
 * libcurl signs too (CURLOPT_AWS_SIGV4), but 7.88 sends no x-amz-content-sha256, and versions before
 * 8.12 disagree with servers about queries and about which headers are signed (curl #8107, #11794,
 * #13754); this works with any version of it, and signs each retry anew. */
#ifndef ZF_REMOTE_SIGV4_H
#define ZF_REMOTE_SIGV4_H

#include <time.h>

#include "headers.h"

struct sigv4_key {
    const char *id, *secret;
    const char *token; /* of temporary credentials; NULL: none */
};

struct sigv4_ask {
    const char *method;
    /* as sent: the path encoded once, the query sorted, each name followed by '=' */
    const char *url;
    /* the "Name: value" lines to sign, without Host; no repeated names, no double blanks in values */
    const char *const *header;
    size_t n_header;
    const void *body;
    size_t n_body;
    const char *region;  /* "us-east-1" */
    const char *service; /* "s3", "sts" */
    time_t now;
};

/* Adds the headers of the signature: x-amz-date, x-amz-content-sha256, x-amz-security-token if the key has a token, and
 * authorization.  Errors: ZF_E_USAGE not an absolute URL; those of headers_add. */
bool sigv4_sign(const struct sigv4_ask *ask, const struct sigv4_key *key, struct headers *out,
                struct zf_err *err) ZF_CHECKED;

#endif
