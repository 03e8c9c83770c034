/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of S3 and of what speaks its language. */
#ifndef ZF_REMOTE_S3_PLACE_H
#define ZF_REMOTE_S3_PLACE_H

#include "place.h"

/* What differs between the schemes; NULL = nothing. */
struct s3_kind {
    const char *scheme, *store;    /* "s3", "S3" for sentences */
    const char *profile_variable;  /* names a profile, which counts more than keys in the environment */
    const char *endpoint_variable; /* must name the endpoint */
    const char *endpoint;          /* a fixed one */
    const char *region;            /* a fixed one */
    bool google;                   /* credentials are Google's */
};

/* NULL: ZF_E_USAGE address or settings that make no sense; those of aws_auth_new. */
struct place *s3_place_new(const struct s3_kind *k, const struct place_new *n,
                           struct zf_err *err) ZF_CHECKED;

#endif
