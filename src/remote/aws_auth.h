/* SPDX-License-Identifier: Apache-2.0 */
/* Signs requests with credentials that are fetched when they are first needed and again before they run
 * out.  Where there are none anywhere, requests go out as they are. */
#ifndef ZF_REMOTE_AWS_AUTH_H
#define ZF_REMOTE_AWS_AUTH_H

#include "aws_conf.h"
#include "http.h"

struct aws_auth_opts {
    struct http *http;
    const char *profile; /* named by a variable of ours; NULL: as AWS_PROFILE says */
    const char *id,
        *secret;        /* a key of the environment, borrowed; NULL: as the settings of AWS say */
    const char *region; /* "us-east-1" */
    const char *bucket; /* for sentences */
    const char *store;  /* "S3" */
};

/* Decides where credentials will come from; asks nobody.  NULL: as of aws_plan_make and aws_conf_load. */
struct auth *aws_auth_new(const struct aws_auth_opts *o, struct zf_err *err) ZF_CHECKED;

/* The region that requests are signed for, copied. */
void aws_auth_region(struct auth *a, char *out, size_t n);

/* Takes the region that the server names; true: it is another than before. */
bool aws_auth_learn(struct auth *a, const struct http_reply *r);

#endif
