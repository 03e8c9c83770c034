/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the HTTP client: hosts and their connections, the head of a response, one request. */
#ifndef REMOTE_HTTP_INSIDE_H
#define REMOTE_HTTP_INSIDE_H

#include <stdatomic.h>

#include <zf/base/out.h>
#include <zf/base/vec.h>

#include "http.h"

/* ---- hosts and connections (http_queue.c) ----------------------------------------------------------------------- */

struct http_host {
    struct http_host *next;
    char *origin; /* "https://host:8443", of url_origin */
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
    zf_vec(pthread_t) pool; /* threads that run the turns of http_later */
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
/* Waits this many seconds, or until the client ends. */
void http_turn_pause(struct http *h, struct http_turn *t, double seconds);

/* ---- the head of a response (http_head.c) ---------------------------------------------------------------------- */

struct http_head {
    long status;
    char reason[64]; /* "Not Found"; "" */
    struct http_object object;
    bool has_length, has_range, unsatisfied, chunked;
    bool bad_range;          /* Content-Range cannot be parsed */
    const char *twice;       /* name of a field that came with two values; NULL = none did */
    uint64_t length;         /* Content-Length */
    uint64_t first, last;    /* Content-Range */
    uint64_t total;          /* of it, also where it is unsatisfied; HTTP_SIZE_UNKNOWN: '*' */
    bool encoded, multipart; /* a coding other than identity and chunked; multipart/byteranges */
    double retry_after;      /* seconds from now; negative: not said */
    bool linked; /* object has the size and tag that a redirect promised of its target */
};

/* Begins an answer.  Properties that a redirect promised of its target stay. */
void http_head_begin(struct http_head *h);

/* One line as it came, with or without its end.  now: seconds since 1970. */
void http_head_line(struct http_head *h, const char *line, size_t n, time_t now);

/* ---- one request: the ask, the attempt being made, the answer so far (http_call.c, http_judge.c, http_check.c) ----------------------------------------------------------------------------------- */

/* Redirects in a row. */
#define HTTP_REDIRECTS 5
/* Bytes of an answer's header lines; of an error's body. */
#define HTTP_HEAD_MOST (256u << 10)
#define HTTP_SAID_MOST (64u << 10)

struct http_call {
    struct http_turn *turn;
    struct http_ask ask; /* borrows from the caller's */
    char *origin;        /* that credentials are for */
    char *at;            /* the URL now, behind redirects */
    struct http_host *host;
    unsigned tries, redirects;
    bool renewed; /* credentials, once */
    struct headers sign;
    uint64_t generation; /* of the credentials in sign */

    /* The attempt. */
    void *easy, *list;
    char said[256]; /* libcurl's message; CURL_ERROR_SIZE */
    struct http_head head;
    struct zf_out lines;
    size_t last;    /* where in lines the last answer begins */
    size_t trailer; /* bytes of lines behind the head, which say nothing */
    struct zf_out body;
    uint64_t got, want; /* bytes of the body; and how many the head announced, HTTP_SIZE_UNKNOWN */
    bool over;          /* the head is complete */
    bool checked, refused; /* the head was compared with the ask; and does not fit: err says why */

    struct zf_err err;
};

/* Begins with ask and turn alone.  False, with c->err: ZF_E_NOMEM, ZF_E_USAGE no such URL. */
bool http_call_init(struct http_call *c, const struct http_ask *ask) ZF_CHECKED;
void http_call_fini(struct http_call *c);

/* Does the origin of the URL get the credentials, the caller's headers and If-Match? */
bool http_call_at_home(const struct http_call *c);
/* Signs for the next attempt; may ask for credentials.  Errors: those of the auth. */
bool http_call_sign(struct http_call *c, struct zf_err *err) ZF_CHECKED;

/* Makes the easy handle of an attempt that may last `left` seconds; c->easy.  Errors: ZF_E_NOMEM; of headers_add. */
bool http_call_begin(struct http_call *c, const struct http_ways *ways, double left,
                     struct zf_err *err) ZF_CHECKED;
/* Frees it. */
void http_call_end(struct http_call *c);

/* The next step after an attempt; `result` is libcurl's. */
enum http_next { HTTP_GOOD, HTTP_BAD, HTTP_AGAIN, HTTP_ELSEWHERE, HTTP_RENEW };
enum http_next http_call_judge(struct http_call *c, int result);

/* How long to wait before attempt number `tries` + 1: back-off with jitter, or what the server said. */
double http_call_pause(const struct http_call *c);

/* The answer, borrowed from the call. */
struct http_reply http_call_seen(const struct http_call *c);
/* Moves the answer, as far as it came, to *out. */
void http_call_reply(struct http_call *c, struct http_reply *out);

/* Checks the head of an answer of 200 to 299 against the ask, and notes the length of the body in c->want.
 * Errors: ZF_E_STALE another object, ZF_E_IO another answer than the ask allows. */
bool http_call_check(struct http_call *c);
/* The check alone. */
bool http_check(const struct http_ask *ask, const struct http_head *head,
                struct zf_err *err) ZF_CHECKED;

/* The server's own message in the body of an error, one line of out[n]; "": none for people. */
void http_body_words(const char *body, size_t n_body, char *out, size_t n);

#endif
