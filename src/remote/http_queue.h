/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts that a client has talked to, and the order in which their connections are given to requests. */
#ifndef REMOTE_HTTP_QUEUE_H
#define REMOTE_HTTP_QUEUE_H

#include <stdatomic.h>

#include <zf/base/vec.h>

#include "http.h"

struct http_host {
    struct http_host *next;
    char *origin; /* "https://host:443" */
    char *name;   /* "host" */
    atomic_uint_least64_t requests, retries, bytes, errors, hits;
    atomic_bool answered; /* it did, once */
    /* Under the client's lock. */
    struct http_turn *waiting, *running; /* for a connection; with one */
    unsigned active;                     /* of `running`, those that count for the bound */
    zf_vec(void *) idle;                 /* connections, each a CURLM that keeps its socket */
};

/* Settings of a client, for all its requests. */
struct http_ways {
    const char *cacert, *capath;  /* NULL = libcurl's */
    const char *netrc;            /* NULL = ~/.netrc */
    double connect, stall, total; /* seconds */
    uint32_t connections;         /* to one host */
};

struct http {
    struct http_ways ways;
    void (*say)(void *ctx, const char *line);
    void *say_ctx;
    void (*advise)(void *ctx, const char *line);
    atomic_bool stop;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work;  /* for the pool */
    struct http_host *hosts;
    zf_vec(pthread_t) pool; /* threads that run what http_later was given */
    unsigned idle, ready;   /* threads that wait; turns that wait for one and have a connection */
};

/* Seconds of a clock that nobody sets. */
double http_now(void);

/* Starts the first thread of the pool.  Errors: ZF_E_IO. */
bool http_queue_init(struct http *h, struct zf_err *err) ZF_CHECKED;
/* Ends all turns of the pool. */
void http_queue_fini(struct http *h);

/* Waits for a connection, or until the turn's deadline.  extra: beyond the bound, so that whoever has a connection may
 * wait for it. */
void http_turn_begin(struct http *h, struct http_turn *t, bool extra);
/* Gives the connection to the next one; nothing for a turn that never began. */
void http_turn_end(struct http *h, struct http_turn *t);
/* The connection of a turn that was begun, which ends with it.  NULL: out of memory. */
void *http_turn_multi(struct http *h, struct http_turn *t);
/* Waits so many seconds, or until the client ends. */
void http_turn_pause(struct http *h, struct http_turn *t, double seconds);

#endif
