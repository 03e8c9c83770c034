/* SPDX-License-Identifier: Apache-2.0 */
/* Where the credentials for AWS come from, decided from settings alone; nothing is asked over the
 * network here.  The order is botocore's (credentials.py, create_credential_resolver). */
#ifndef ZF_REMOTE_AWS_PLAN_H
#define ZF_REMOTE_AWS_PLAN_H

#include "aws_conf.h"

#define AWS_PLAN_ROLES 8 /* assumed one with the credentials of the other */

enum aws_base {
    AWS_NOBODY,       /* requests are not signed: AWS_NO_SIGN_REQUEST */
    AWS_STATIC,       /* a key, of the environment or of a file */
    AWS_WEB_IDENTITY, /* STS, with the token in a file; the first role is the one it gives */
    AWS_CONTAINER,    /* a service that the environment names */
    AWS_INSTANCE,     /* IMDS, where there is one; else requests are not signed */
};

struct aws_role {
    const char *arn, *session, *external_id, *duration; /* NULL but for arn: not set */
};

/* Texts are borrowed from the settings and the environment. */
struct aws_plan {
    enum aws_base base;
    /* AWS_INSTANCE: the profile asks for it (credential_source), and its absence is an error */
    bool explicit_instance;
    const char *id, *secret, *token;      /* AWS_STATIC; token NULL: none */
    const char *token_file;               /* AWS_WEB_IDENTITY */
    struct aws_role role[AWS_PLAN_ROLES]; /* in the order in which they are assumed */
    unsigned n_roles;
    const char *from; /* for messages: "the environment", "a profile" … */
};

/* Decides; *c must outlive the plan.  Errors: ZF_E_USAGE settings that contradict each other or lack something;
 * ZF_E_UNSUPPORTED what runs a program or wants a person (credential_process, SSO, MFA). */
bool aws_plan_make(struct aws_plan *p, const struct aws_conf *c, struct zf_err *err) ZF_CHECKED;

#endif
