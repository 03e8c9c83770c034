/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP client.  A request runs in the calling thread: it retries transient failures, follows redirects, checks the
 * response against the request, and fails with one sentence.  The number of connections to a host is limited; requests
 * queue for them. */
#ifndef REMOTE_HTTP_H
#define REMOTE_HTTP_H

#include <pthread.h>
#include <string.h>
#include <time.h>

#include <zf/base/auto.h>
#include <zf/remote.h>

#include "headers.h"

#define HTTP_SIZE_UNKNOWN UINT64_MAX

/* Known properties of an object. */
struct http_object {
    uint64_t size;  /* bytes, or HTTP_SIZE_UNKNOWN */
    char etag[128]; /* as sent, with quotes and W/; "" = unknown */
    struct timespec
        mtime; /* Last-Modified; tv_sec 0 = unknown.  Not taken from a listing that rounds it */
    char version[128]; /* x-amz-version-id, x-goog-generation; "" = unknown */
    time_t date;       /* time of the response, by the server's clock; 0 = unknown */
};
#define HTTP_OBJECT_UNKNOWN ((struct http_object){.size = HTTP_SIZE_UNKNOWN})

/* Is the object identified by a strong ETag or a version, so that a replaced object is noticed? */
bool http_object_exact(const struct http_object *o);
/* Would any later change of the object change these properties?  The ETag of a web server is often made of time and size,
 * and a file may be written twice in a second; so the object must have been seen at least HTTP_OLD_SECONDS after its
 * mtime, by the server's clock.  content_hash: every change of the bytes changes the place's ETags. */
#define HTTP_OLD_SECONDS 2 /* one, and a tick of a file system's clock */
bool http_object_settled(const struct http_object *o, bool content_hash);
/* Can both be the same object?  Compares the properties known of both.  Errors: ZF_E_STALE. */
bool http_object_same(const struct http_object *was, const struct http_object *is,
                      struct zf_err *err) ZF_CHECKED;

struct http_reply {
    long status; /* 0: no response */
    struct http_object object;
    uint8_t *body; /* malloc'ed and zero-terminated; of an error only the beginning */
    size_t n_body;
    uint64_t len; /* bytes of the range */
    char *url;    /* final URL, after redirects */
    char *head;   /* header lines of all responses, redirects included */
    size_t last;  /* offset of the last response in head */
};
/* The value of a header of the last response, malloc'ed; NULL: no such header. */
char *http_header(const struct http_reply *r, const char *name);
void http_reply_fini(struct http_reply *r);
static inline void zf_auto_http_reply(struct http_reply *r)
{
    http_reply_fini(r);
}
/* The same for a reply with a secret in its body, which is wiped. */
static inline void zf_auto_secret_reply(struct http_reply *r)
{
    if (r->body)
        explicit_bzero(r->body, r->n_body);
    http_reply_fini(r);
}

/* ---- signing --------------------------------------------------------------------------------- */

/* The request to be signed. */
struct auth_ask {
    const char *method, *url;  /* url: percent-encoded, as on the wire */
    const char *const *header; /* "Name: value": Range, If-Match, the caller's */
    size_t n_header;
    const void *body;
    size_t n_body;
};

struct auth;
struct auth_ops {
    /* Adds the headers of the signature.  *generation: number of the credentials (and region) used; it increases with each
     * change. */
    bool (*sign)(struct auth *a, const struct auth_ask *ask, struct headers *add,
                 uint64_t *generation, struct zf_err *err);
    /* Called when the server answered 400, 401 or 403 to a request signed with `generation`.  refused: status, headers and
     * body.  True: there are newer credentials now, or the server named another region, so a retry may help.  NULL =
     * never retry. */
    bool (*renew)(struct auth *a, uint64_t generation, const struct http_reply *refused);
    /* Fills *err with the reason of a refusal (status 300 or more); always returns false.  listing: the request was for a
     * directory.  NULL = use the client's own message. */
    bool (*explain)(struct auth *a, const struct http_reply *refused, bool listing,
                    struct zf_err *err);
    void (*fini)(struct auth *a);
};

/* Signs all requests of a place, but not those that a redirect sends to another host.  It may fetch credentials with
 * http_do (http_ask.straight).  Thread: any. */
struct auth {
    const struct auth_ops *ops;
};

/* NULL is fine. */
static inline void auth_free(struct auth *a)
{
    if (a)
        a->ops->fini(a);
}

/* ---- requests ---------------------------------------------------------------------------------- */

/* Receives the body of a range as it arrives, in the requesting thread. */
struct http_sink {
    /* Called before the first byte of each attempt with a valid header.  is: the object of the response; sized: the
     * response has a length, so that no more bytes can come.  Returning false refuses the response. */
    bool (*begin)(void *ctx, const struct http_object *is, bool sized, struct zf_err *err);
    /* Receives n bytes at offset `at` of the range.  A retry delivers the same bytes again. */
    void (*put)(void *ctx, uint64_t at, const void *p, size_t n);
    void *ctx;
};

/* A request's position in the queue of its host.  The caller sets host, lane, ahead and run; the rest is zero. */
struct http_turn {
    struct http_host *host;
    /* number of the object; all requests with the same number get at most 3/4 of the free connections.  0: no limit */
    uint64_t lane;
    bool ahead; /* a prefetch: requests with a waiting reader go first */
    /* Makes the request with http_do and ask.turn; called in a pool thread once a connection is free.  The turn ends with
     * http_do.  NULL: the calling thread waits in http_do. */
    void (*run)(struct http_turn *t);
    /* Private to the client. */
    struct http_turn *prev, *next;
    double deadline;      /* seconds of http_now */
    bool extra;           /* does not count towards the limit on connections */
    bool granted, taken;  /* has a connection; is run by a thread */
    void *multi;          /* the connection, a CURLM; NULL: not created yet */
    pthread_cond_t moved; /* granted, or the client ends */
};

struct http_ask {
    const char *method; /* GET HEAD PUT POST; NULL = GET */
    const char *url;    /* absolute, percent-encoded as on the wire, no user:password in it */
    const char *const *header; /* "Name: value"; never logged */
    size_t n_header;
    const void *body; /* POST and PUT of the credential services only */
    size_t n_body;
    uint64_t off, len; /* len > 0: a range; the response must be 206 with exactly these bytes */
    bool to_end;       /* the range may extend past the end of the object */
    /* the object as first seen, for If-Match and the checks; NULL: unknown */
    const struct http_object *same;
    uint64_t max_body;      /* limit of a body without a range, bytes (ZF_E_LIMIT); 0 = 1 MiB */
    struct auth *auth;      /* signs each attempt; NULL: unsigned */
    bool netrc;             /* take user and password from the netrc file */
    struct http_sink sink;  /* put NULL: the body is returned in the reply */
    struct http_turn *turn; /* the turn passed to http_later; NULL: queue now */
    bool secret;            /* the path is a secret: messages show only the host */
    /* request or response contain credentials: redirects are refused, as for every method but GET and HEAD */
    bool straight;
    double timeout; /* seconds; 0 = the client's */
    unsigned tries; /* maximum number of attempts; 0 = the client's choice */
};

struct http;
struct http_host;
/* Makes a client.  Errors: ZF_E_NOMEM, ZF_E_IO no thread. */
struct http *http_new(const struct zf_remote_opts *o, struct zf_err *err) ZF_CHECKED;
/* Cancels the requests of http_later; no other request may be running.  NULL is fine. */
void http_free(struct http *h);

/* Makes a request and waits for the response.  Statuses 200 to 299 are success.  *out must be freed with http_reply_fini
 * in any case; on failure it has what was received.
 * Errors (path: the URL without its query): ZF_E_NOENT 404, 410; ZF_E_STALE not the object `same`; ZF_E_LIMIT a body
 * longer than max_body; ZF_E_IO all others. */
bool http_do(struct http *h, const struct http_ask *ask, struct http_reply *out,
             struct zf_err *err) ZF_CHECKED;

/* Queues a turn for the pool and returns.  If the client ends first, run is still called, and its http_do fails. */
void http_later(struct http *h, struct http_turn *t);

/* Calls ask for those of the indices 0 … n-1 for which `due` is true, in parallel, as many at a time as a host has
 * connections.  After a failure, whose index is *bad_out, no more are started. */
struct http_many {
    bool (*due)(void *ctx, size_t i);                     /* NULL: all */
    bool (*ask)(void *ctx, size_t i, struct zf_err *err); /* called from any thread */
    void *ctx;
};
bool http_each(struct http *h, const struct http_many *m, size_t n, size_t *bad_out,
               struct zf_err *err) ZF_CHECKED;

/* Shows a line to the user (zf_remote_opts.advise). */
void http_advise(struct http *h, const char *line);
/* Calls fn with the statistics of every host used so far. */
void http_hosts(struct http *h, zf_host_stats_fn *fn, void *ctx);
/* The host of a URL; it lives as long as the client.  NULL: out of memory. */
struct http_host *http_host_for(struct http *h, const char *url);
/* Counts blocks found in a cache in the host's statistics. */
void http_count_hits(struct http_host *host, uint64_t hits);

#endif
