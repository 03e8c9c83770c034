/* SPDX-License-Identifier: Apache-2.0 */
/* The client as its own files see it. */
#ifndef REMOTE_HTTP_INSIDE_H
#define REMOTE_HTTP_INSIDE_H

#include "http_call.h"

struct http {
    struct http_ways ways;
    void (*say)(void *ctx, const char *line);
    void *say_ctx;
    void (*advise)(void *ctx, const char *line);
    void *multi; /* CURLM */
    pthread_t thread, clerk;
    bool has_thread, has_clerk;
    pthread_mutex_t lock;    /* of all below, and what struct http_call says */
    pthread_cond_t work;     /* for the clerk */
    struct http_call *inbox; /* started and not yet seen by the thread */
    struct http_call *desk;  /* for the clerk */
    struct http_hosts hosts;
    bool stop, cancels;
    /* Of the thread. */
    struct http_call *calls;
};

/* The client's thread, and the clerk's; arg: the client. */
void *http_loop(void *arg);
void *http_loop_clerk(void *arg);

/* Puts the URL in front of the sentence, without what may be secret. */
void http_name(const struct http_call *c, struct zf_err *err);
/* The lock is held. */
void http_unref(struct http_call *c);
/* The call is in no list any more: says so to whoever waits. */
void http_finish(struct http *h, struct http_call *c, bool ok);

#endif
