/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts a client has talked to. */
#ifndef REMOTE_HTTP_HOST_H
#define REMOTE_HTTP_HOST_H

#include <stdatomic.h>

#include "http.h"

struct http_host {
    struct http_host *next;
    char *origin; /* "https://host:443" */
    char *name;   /* "host" */
    atomic_uint_least64_t requests, retries, bytes, errors, hits;
    atomic_bool answered; /* it did, once */
    unsigned active;      /* requests on their way; of the client's thread */
};

/* All of them, under the lock of the client. */
struct http_hosts {
    struct http_host *first;
};

/* The one of this URL, made at the first question.  NULL: out of memory. */
struct http_host *http_host_of(struct http_hosts *all, const char *url);
void http_hosts_each(const struct http_hosts *all, zf_host_stats_fn *fn, void *ctx);
void http_hosts_fini(struct http_hosts *all);

#endif
