/* SPDX-License-Identifier: Apache-2.0 */
/* Profile, region and endpoint from the environment and the configuration files of AWS' tools.  Resolved as
 * botocore does it, which tests/remote/test_aws.py compares. */
#ifndef ZF_REMOTE_AWS_CONF_H
#define ZF_REMOTE_AWS_CONF_H

#include <zf/base/auto.h>
#include <zf/base/err.h>

#include "ini.h"
#include "settings.h"

struct aws_conf {
    struct ini config, shared;       /* ~/.aws/config, ~/.aws/credentials */
    char *config_path, *shared_path; /* as they were opened, for messages */
    char *profile;                   /* "default" where none is named */
    bool chosen; /* by a variable of ours (S3_PROFILE …): AWS_ACCESS_KEY_ID does not count */
};

/* Reads both files; one that is not there is empty.  profile NULL: what AWS_PROFILE says.
 * Errors: ZF_E_FORMAT, ZF_E_USAGE a profile that neither has, ZF_E_IO. */
bool aws_conf_load(struct aws_conf *c, const char *profile, struct zf_err *err) ZF_CHECKED;

void aws_conf_fini(struct aws_conf *c);

static inline void zf_auto_aws_conf(struct aws_conf *c)
{
    aws_conf_fini(c);
}

bool aws_conf_has(const struct aws_conf *c, const char *profile);

/* An option of a profile: what the credentials file says before what the config file says.  Lends;
 * NULL: neither. */
const char *aws_conf_get(const struct aws_conf *c, const char *profile, const char *option);

/* The URL that is set for a service ("s3", "sts"), malloc'ed; *out is NULL where none is.
 * Errors: ZF_E_USAGE services section that is not there, or no http(s) URL. */
bool aws_conf_endpoint(const struct aws_conf *c, const char *service, char **out,
                       struct zf_err *err) ZF_CHECKED;

/* The region, or NULL.  Lends. */
const char *aws_conf_region(const struct aws_conf *c);

/* The `name` in the nested value `s3` of the profile (addressing_style), malloc'ed; NULL: not there. */
char *aws_conf_s3(const struct aws_conf *c, const char *name);

#endif
