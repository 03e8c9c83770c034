/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the HTTP client: hosts and their connections, the header of a response, one request. */
#ifndef REMOTE_HTTP_INSIDE_H
#define REMOTE_HTTP_INSIDE_H

#include <stdatomic.h>

#include <zf/base/out.h>
#include <zf/base/vec.h>

#include "http.h"

/* ---- hosts and connections (http_queue.c) ----------------------------------------------------------------------- */

struct http_host {
    struct http_host *next;
    char *origin; /* "https://host:8443", from url_origin */
    atomic_uint_least64_t requests, retries, bytes, errors, hits;
    atomic_bool answered; /* it has answered at least once */
    /* Guarded by the client's lock. */
    struct http_turn *waiting, *running; /* turns waiting for a connection; turns that have one */
    unsigned active;                     /* number of running turns without `extra` */
    zf_vec(void *) idle; /* free connections, each a CURLM that keeps its socket open */
};

/* Settings of a client, for all its requests. */
struct http_config {
    const char *cacert, *capath; /* NULL = libcurl's default */
    const char *netrc;           /* NULL = ~/.netrc */
    double connect, stall,
        total; /* timeouts in seconds: connecting, no progress, whole request with retries */
    uint32_t connections; /* maximum per host */
};

struct http {
    struct http_config config;
    void (*say)(void *ctx, const char *line);
    void *say_ctx;
    void (*advise)(void *ctx, const char *line);
    atomic_bool stop;
    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t work;  /* wakes pool threads */
    struct http_host *hosts;
    zf_vec(pthread_t) pool; /* threads that run the turns of http_later */
    unsigned idle, ready; /* waiting threads; turns that have a connection and wait for a thread */
};

/* Seconds of a monotonic clock. */
double http_now(void);

/* Starts the first thread of the pool.  Errors: ZF_E_IO. */
bool http_queue_init(struct http *h, struct zf_err *err) ZF_CHECKED;
/* Cancels the pool's turns, joins its threads and frees the hosts. */
void http_queue_fini(struct http *h);

/* Waits for a connection, or until the turn's deadline.  extra: ignores the limit on connections, so that a thread that
 * holds a connection can wait for this request without a deadlock. */
void http_turn_begin(struct http *h, struct http_turn *t, bool extra);
/* Passes the connection on to the next turn.  Does nothing if the turn never had one. */
void http_turn_end(struct http *h, struct http_turn *t);
/* The connection (CURLM) of a turn, valid until the turn ends.  NULL: out of memory. */
void *http_turn_multi(struct http *h, struct http_turn *t);
/* Sleeps for this many seconds, or until the client ends. */
void http_turn_pause(struct http *h, struct http_turn *t, double seconds);

/* ---- the header of a response (http_head.c) -------------------------------------------------------------------- */

struct http_head {
    long status;
    char reason[64]; /* "Not Found"; "" = none */
    struct http_object object;
    bool has_length, has_range, unsatisfied, chunked;
    bool bad_range;       /* Content-Range cannot be parsed */
    const char *twice;    /* name of a field with two different values; NULL = none */
    uint64_t length;      /* Content-Length */
    uint64_t first, last; /* Content-Range */
    uint64_t total; /* object size in Content-Range, also if unsatisfied; HTTP_SIZE_UNKNOWN: '*' */
    bool encoded, multipart; /* a coding other than identity and chunked; multipart/byteranges */
    double retry_after;      /* seconds from now; negative: no such header */
    bool linked; /* `object` has the size and ETag that a redirect announced for its target */
};

/* Starts a new response.  Properties that a redirect announced for its target are kept. */
void http_head_begin(struct http_head *h);

/* Parses one header line, with or without its line end.  now: seconds since 1970. */
void http_head_line(struct http_head *h, const char *line, size_t n, time_t now);

/* ---- one request: the ask, the attempt being made, the answer so far (http_call.c, http_judge.c, http_check.c) ----------------------------------------------------------------------------------- */

/* Maximum number of redirects of a request. */
#define HTTP_REDIRECTS 5
/* Limits in bytes: header lines of a response; body of an error. */
#define HTTP_HEAD_MOST (256u << 10)
#define HTTP_SAID_MOST (64u << 10)

struct http_call {
    struct http_turn *turn;
    struct http_ask ask; /* borrows from the caller's */
    char *origin;        /* origin of the first URL: only it gets credentials */
    char *at;            /* current URL, after redirects */
    struct http_host *host;
    unsigned tries, redirects;
    bool renewed; /* new credentials were requested once already */
    struct headers sign;
    uint64_t generation; /* of the credentials in sign */

    /* The attempt. */
    void *easy, *list;
    char said[256]; /* libcurl's message; CURL_ERROR_SIZE */
    struct http_head head;
    struct zf_out lines;
    size_t last;    /* offset of the last response in lines */
    size_t trailer; /* bytes of trailer lines, which are ignored */
    struct zf_out body;
    uint64_t got, want; /* bytes of the body received; bytes announced, or HTTP_SIZE_UNKNOWN */
    bool over;          /* the header is complete */
    bool checked,
        refused; /* the header was checked; the response is refused, with the reason in err */

    struct zf_err err;
};

/* Initialises a call in which only turn is set.  False, with c->err: ZF_E_NOMEM, ZF_E_USAGE invalid URL. */
bool http_call_init(struct http_call *c, const struct http_ask *ask) ZF_CHECKED;
void http_call_fini(struct http_call *c);

/* Is the current URL still at the first origin, so that credentials, the caller's headers and If-Match are sent? */
bool http_call_at_home(const struct http_call *c);
/* Signs the next attempt; may fetch credentials.  Errors: those of the auth. */
bool http_call_sign(struct http_call *c, struct zf_err *err) ZF_CHECKED;

/* Makes the easy handle of an attempt that may last `left` seconds; c->easy.  Errors: ZF_E_NOMEM; of headers_add. */
bool http_call_begin(struct http_call *c, const struct http_config *config, double left,
                     struct zf_err *err) ZF_CHECKED;
/* Frees the easy handle. */
void http_call_end(struct http_call *c);

/* Judges an attempt: success, failure, retry, redirect, or retry with new credentials.  result: a CURLcode. */
enum http_next { HTTP_GOOD, HTTP_BAD, HTTP_AGAIN, HTTP_ELSEWHERE, HTTP_RENEW };
enum http_next http_call_judge(struct http_call *c, int result);

/* Seconds to wait before the next attempt: Retry-After, or exponential back-off with jitter. */
double http_call_pause(const struct http_call *c);

/* The response, borrowed from the call. */
struct http_reply http_call_seen(const struct http_call *c);
/* Moves the response, as far as it was received, to *out. */
void http_call_reply(struct http_call *c, struct http_reply *out);

/* Checks the header of a response (status 200 to 299) against the request, and sets c->want.
 * Errors: ZF_E_STALE another object, ZF_E_IO the response does not fit the request. */
bool http_call_check(struct http_call *c);
/* The check without c->want. */
bool http_check(const struct http_ask *ask, const struct http_head *head,
                struct zf_err *err) ZF_CHECKED;

/* Extracts the server's message from the body of an error as one line into out[n]; "": there is none for humans. */
void http_body_words(const char *body, size_t n_body, char *out, size_t n);

#endif
