/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials as the services hand them out: JSON from containers and instances, XML from STS. */
#ifndef ZF_REMOTE_AWS_REPLY_H
#define ZF_REMOTE_AWS_REPLY_H

#include <time.h>

#include <zf/base/err.h>

struct aws_key {
    char *id, *secret, *token; /* owned; token NULL: none */
    time_t expires;            /* 0: never, as far as is known */
};

/* Wipes what it held. */
void aws_key_fini(struct aws_key *k);

static inline void zf_auto_aws_key(struct aws_key *k)
{
    aws_key_fini(k);
}

/* Errors: ZF_E_FORMAT; no sentence says anything of the body but an error's code.  *out is empty at first. */
bool aws_reply_json(struct aws_key *out, const void *p, size_t n, struct zf_err *err) ZF_CHECKED;
bool aws_reply_xml(struct aws_key *out, const void *p, size_t n, struct zf_err *err) ZF_CHECKED;

#endif
