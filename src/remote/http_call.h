/* SPDX-License-Identifier: Apache-2.0 */
/* One request on its way: what was asked, the attempt that is made just now, and what came.  All of it
 * belongs to the client's thread, but for what http_client.c guards. */
#ifndef REMOTE_HTTP_CALL_H
#define REMOTE_HTTP_CALL_H

#include <pthread.h>
#include <stdatomic.h>

#include <zf/base/out.h>

#include "http_head.h"
#include "http_host.h"

/* Redirects in a row. */
#define HTTP_REDIRECTS 5
/* Of an answer's header lines; of the body of one that says what is wrong. */
#define HTTP_HEAD_MOST (256u << 10)
#define HTTP_SAID_MOST (64u << 10)

enum http_state { HTTP_QUEUED, HTTP_SIGNING, HTTP_RUNNING };

struct http_call {
    struct http_call *prev, *next; /* in the client's list */
    struct http *http;

    /* The request; copies. */
    struct http_ask ask;
    struct headers header;
    void *payload;
    struct http_object same;
    char *origin; /* that credentials are for */

    /* Guarded by the client's lock. */
    unsigned refs; /* of who asked, and of the client */
    bool done, ok;
    atomic_bool cancelled; /* set under the lock, read without it too */
    pthread_cond_t moved;

    /* Of the client's thread, or of the one that signs, while it does. */
    enum http_state state;
    char *at; /* the URL now, behind redirects */
    struct http_host *host;
    unsigned tries, most_tries, redirects;
    bool renewed;    /* credentials, once */
    bool renew;      /* the answer asks for it */
    double deadline; /* CLOCK_MONOTONIC, seconds */
    double not_before;
    struct headers sign;
    uint64_t generation; /* of the credentials in sign */

    /* The attempt. */
    void *easy, *list;
    char said[256]; /* by libcurl; CURL_ERROR_SIZE */
    struct http_head head;
    struct zf_out lines;
    size_t last;    /* where in lines the last answer begins */
    size_t trailer; /* bytes of lines behind the head, which say nothing */
    struct zf_out body;
    uint64_t got, want; /* bytes of the body; and how many the head announced, HTTP_SIZE_UNKNOWN */
    bool over;          /* the head has ended: nothing changes it */
    bool checked, refused; /* the head was looked at; and is not what was asked for: err says why */

    struct zf_err err;
};

/* A copy of *ask with one reference.  Errors: ZF_E_NOMEM, ZF_E_USAGE no such URL or header. */
struct http_call *http_call_new(const struct http_ask *ask, struct zf_err *err) ZF_CHECKED;
void http_call_free(struct http_call *c);

/* Does the origin of the URL get the credentials, the caller's headers and If-Match? */
bool http_call_at_home(const struct http_call *c);
/* Signs for the next attempt, in a thread that may wait.  Errors: those of the auth. */
bool http_call_sign(struct http_call *c, struct zf_err *err) ZF_CHECKED;

/* Settings of a client, for all its requests. */
struct http_ways {
    const char *cacert, *capath;  /* NULL = libcurl's */
    double connect, stall, total; /* seconds */
    uint32_t connections;
};
/* Makes the easy handle of an attempt; c->easy.  Errors: ZF_E_NOMEM; of headers_add. */
bool http_call_begin(struct http_call *c, const struct http_ways *ways, double now,
                     struct zf_err *err) ZF_CHECKED;
/* Frees it. */
void http_call_end(struct http_call *c);

/* The next step after an attempt; `result` is libcurl's. */
enum http_next { HTTP_GOOD, HTTP_BAD, HTTP_AGAIN, HTTP_ELSEWHERE, HTTP_RENEW };
enum http_next http_call_judge(struct http_call *c, int result);

/* How long to wait before attempt number `tries` + 1: back-off with jitter, or what the server said. */
double http_call_pause(const struct http_call *c);

/* Hands what is known over to *out, which is empty. */
void http_call_reply(struct http_call *c, struct http_reply *out);

/* Checks the head of an answer of 200 to 299 against what was asked, and remembers how long the body is to
 * be.  Errors: ZF_E_STALE another object, ZF_E_IO not what was asked for. */
bool http_call_check(struct http_call *c);
/* The check alone. */
bool http_check(const struct http_ask *ask, const struct http_head *head,
                struct zf_err *err) ZF_CHECKED;

/* The server's own words in the body of an error, one line of out[n]: "" when it says nothing that
 * people could use. */
void http_said(const char *body, size_t n_body, char *out, size_t n);

#endif
