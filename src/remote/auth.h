/* SPDX-License-Identifier: Apache-2.0 */
/* How a request is signed.  One of these belongs to a place; all its requests go through it, and none
 * that a redirect sends to another host.  They may ask for credentials with http_do (straight), and may be called by
 * several threads at once. */
#ifndef REMOTE_AUTH_H
#define REMOTE_AUTH_H

#include "headers.h"

struct auth;
struct http_reply;

/* The request as it goes out. */
struct auth_ask {
    const char *method, *url; /* url: percent-encoded, as on the wire */
    const char *const
        *header; /* "Name: value", what is sent besides (Range, If-Match, the caller's) */
    size_t n_header;
    const void *body;
    size_t n_body;
};

struct auth_ops {
    /* Adds what signing adds.  *generation: the number of the credentials (and region)
     * that it signs with; each that differs from the last one has a higher number. */
    bool (*sign)(struct auth *a, const struct auth_ask *ask, struct headers *add,
                 uint64_t *generation, struct zf_err *err);
    /* The server answered 400, 401 or 403 (refused has status, headers and body) to a request that
     * was signed with `generation`: are there others by now, or could others be fetched or learnt,
     * so that one more attempt is worth it?  NULL = never. */
    bool (*renew)(struct auth *a, uint64_t generation, const struct http_reply *refused);
    /* Says in a sentence why the server refused (a status of 300 or more); false always.  listing: a directory was
     * asked for.  NULL = in the client's words. */
    bool (*explain)(struct auth *a, const struct http_reply *refused, bool listing,
                    struct zf_err *err);
    void (*fini)(struct auth *a);
};

struct auth {
    const struct auth_ops *ops;
};

/* NULL is fine. */
static inline void auth_free(struct auth *a)
{
    if (a) {
        a->ops->fini(a);
    }
}

#endif
