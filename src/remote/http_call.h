/* SPDX-License-Identifier: Apache-2.0 */
/* One request on its way: what was asked, the attempt that is made just now, and what came. */
#ifndef REMOTE_HTTP_CALL_H
#define REMOTE_HTTP_CALL_H

#include <zf/base/out.h>

#include "http_head.h"
#include "http_queue.h"

/* Redirects in a row. */
#define HTTP_REDIRECTS 5
/* Of an answer's header lines; of the body of one that says what is wrong. */
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
/* Hands what is known over to *out. */
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
