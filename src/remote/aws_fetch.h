/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches the credentials that a plan (aws_plan.h) describes: requests to STS, containers, instances. */
#ifndef ZF_REMOTE_AWS_FETCH_H
#define ZF_REMOTE_AWS_FETCH_H

#include "aws_plan.h"
#include "aws_reply.h"
#include "http.h"

struct aws_fetch {
    struct http *http;
    const struct aws_plan *plan;
    const char *region; /* of STS; NULL: its address without one */
    const char *sts;    /* its URL where one is set; NULL: Amazon's */
};

/* Gives the key to sign with; *out stays without an id where there are no credentials anywhere, and
 * requests go out unsigned.  Errors: ZF_E_IO and what the services say; ZF_E_USAGE. */
bool aws_fetch_key(const struct aws_fetch *f, struct aws_key *out, struct zf_err *err) ZF_CHECKED;

#endif
