/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP client: libcurl's multi interface in a thread of its own.  Requests run in parallel, a
 * bounded number a host; each is tried again where that may help, follows redirects, is checked
 * against what was asked for, and fails with one sentence. */
#ifndef REMOTE_HTTP_H
#define REMOTE_HTTP_H

#include <string.h>
#include <time.h>

#include <zf/base/auto.h>
#include <zf/remote.h>

#include "auth.h"

#define HTTP_SIZE_UNKNOWN UINT64_MAX

/* Known properties of an object; an empty member is not known. */
struct http_object {
    uint64_t size;         /* HTTP_SIZE_UNKNOWN */
    char etag[128];        /* as sent, with quotes and W/; "" */
    struct timespec mtime; /* Last-Modified; tv_sec 0.  Not from a listing that rounds it */
    char version[128];     /* x-amz-version-id, x-goog-generation; "" */
    time_t date;           /* when that was said, by the server's own clock; 0 */
};
#define HTTP_OBJECT_UNKNOWN ((struct http_object){.size = HTTP_SIZE_UNKNOWN})

/* Can this be found out to be a different one without looking at its bytes: by a strong ETag or a
 * version? */
bool http_object_exact(const struct http_object *o);
/* Would bytes that take the place of these make it another object, whenever they come?  The ETag of a web
 * server is often time and size, and a file may be written twice in a second; so the object must have been
 * seen HTTP_OLD_SECONDS after its time, by the server's clock.  firm: the place's ETags are of the bytes. */
#define HTTP_OLD_SECONDS 2 /* one, and that the clocks of file systems tick */
bool http_object_settled(const struct http_object *o, bool firm);
/* Can both be the same object, as far as they are known?  Errors: ZF_E_STALE. */
bool http_object_same(const struct http_object *was, const struct http_object *is,
                      struct zf_err *err) ZF_CHECKED;

struct http_reply {
    long status; /* 0: there was no answer */
    struct http_object object;
    uint8_t *body; /* malloc'ed, a zero byte behind it; of an error the beginning */
    size_t n_body;
    uint64_t len; /* bytes of the range that came */
    char *url;    /* that answered, behind all redirects */
    char *head;   /* the header lines of all answers, redirects included */
    size_t last;  /* where those of the last one begin */
};
/* The value of the last answer's header of this name, malloc'ed.  NULL: there is none. */
char *http_header(const struct http_reply *r, const char *name);
void http_reply_fini(struct http_reply *r);
static inline void zf_auto_http_reply(struct http_reply *r)
{
    http_reply_fini(r);
}
/* The same of one whose body is a secret. */
static inline void zf_auto_secret_reply(struct http_reply *r)
{
    if (r->body) {
        explicit_bzero(r->body, r->n_body);
    }
    http_reply_fini(r);
}

/* Takes a body as it comes.  The functions are called in the client's thread and must not block. */
struct http_sink {
    /* Of each attempt, in front of its first byte, when its head was found good: what object it is, and
     * whether the answer says its length, so that more cannot come.  False with an error refuses it. */
    bool (*begin)(void *ctx, const struct http_object *is, bool sized, struct zf_err *err);
    /* n bytes at `at` of the range; after a failed attempt they come again. */
    void (*put)(void *ctx, uint64_t at, const void *p, size_t n);
    /* Once, when all is done: err is NULL, or why it failed (also that it was cancelled). */
    void (*done)(void *ctx, const struct http_reply *r, const struct zf_err *err);
    void *ctx;
};

struct http_ask {
    const char *method; /* GET HEAD PUT POST; NULL = GET */
    const char *url;    /* absolute, percent-encoded as on the wire, no user:password in it */
    const char *const *header; /* "Name: value"; never logged */
    size_t n_header;
    const void *body; /* POST and PUT of the credential services only */
    size_t n_body;
    uint64_t off, len; /* len > 0: a range; the answer must be 206 and these bytes */
    bool to_end;       /* the range may reach beyond the object's end */
    /* what the object was: If-Match and all checks; NULL: unknown */
    const struct http_object *same;
    uint64_t max_body;     /* without a range; 0 = 1 MiB.  Errors: ZF_E_LIMIT */
    struct auth *auth;     /* NULL: none; signs each attempt */
    struct http_sink sink; /* put NULL: the body is kept in the reply */
    uint64_t lane; /* those of one object have the same number and leave room for others; 0: none */
    bool ahead;    /* nobody waits for it yet: others go first */
    bool secret;   /* the path is as good as a password: people see the host alone */
    /* it carries credentials in its body or brings some: to a redirect nothing is sent, and what is behind
     * it is not believed; as with every method but GET and HEAD */
    bool straight;
    double timeout; /* seconds; 0 = the client's */
    unsigned tries; /* at most; 0 = the client's choice */
};

struct http;
struct http_host;
/* Errors: ZF_E_NOMEM, ZF_E_IO no thread. */
struct http *http_new(const struct zf_remote_opts *o, struct zf_err *err) ZF_CHECKED;
void http_free(struct http *h);

/* Asks and waits.  Statuses from 200 to 299 are success.  *out is filled as far as it is known on
 * failure too, and is for http_reply_fini in any case.
 * Errors (path: the URL without its query): ZF_E_NOENT 404, 410; ZF_E_STALE another object than
 * `same`; ZF_E_IO all else; ZF_E_LIMIT a body over max_body. */
bool http_do(struct http *h, const struct http_ask *ask, struct http_reply *out,
             struct zf_err *err) ZF_CHECKED;

/* The same without waiting; *ask is copied, but for `auth`, `sink.ctx` and what they lead to.  Signs
 * in the caller's thread, which must not be the client's own.  NULL: failed already (sink.done was
 * not called). */
struct http_call;
struct http_call *http_start(struct http *h, const struct http_ask *ask,
                             struct zf_err *err) ZF_CHECKED;
/* Waits for the end, and gives the call back. */
bool http_wait(struct http_call *c, struct http_reply *out, struct zf_err *err) ZF_CHECKED;
/* Nobody waits for it: sink.done says what came of it. */
void http_leave(struct http_call *c);
/* Lets go at once, whatever it does; sink.done may come later. */
void http_cancel(struct http_call *c);

/* Requests 0 … n-1, HTTP_MANY of them at most on their way at a time, whose answers are taken in their order.  The
 * first failure, of *bad_out, ends it: those that were begun are cancelled. */
#define HTTP_MANY 128
struct http_many {
    /* Begins request i with http_start; *out stays NULL where there is none to be made. */
    bool (*begin)(void *ctx, size_t i, struct http_call **out, struct zf_err *err);
    /* Takes its answer with http_wait. */
    bool (*end)(void *ctx, size_t i, struct http_call *c, struct zf_err *err);
    void *ctx;
};
bool http_do_many(const struct http_many *m, size_t n, size_t *bad_out,
                  struct zf_err *err) ZF_CHECKED;

/* Says one line to the user (zf_remote_opts.advise). */
void http_advise(struct http *h, const char *line);
/* Calls fn for every host so far. */
void http_hosts(struct http *h, zf_host_stats_fn *fn, void *ctx);
/* Counts blocks of the URL's host that need not be fetched.  The host lives as long as the client; NULL:
 * out of memory. */
struct http_host *http_host_for(struct http *h, const char *url);
void http_count_hits(struct http_host *host, uint64_t hits);

#endif
