/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP client.  A request is made in the thread that asks: it is tried again where that may help, follows redirects,
 * is checked against what was asked for, and fails with one sentence.  A host has a bounded number of connections, for
 * which requests queue. */
#ifndef REMOTE_HTTP_H
#define REMOTE_HTTP_H

#include <pthread.h>
#include <string.h>
#include <time.h>

#include <zf/base/auto.h>
#include <zf/remote.h>

#include "headers.h"

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

/* Does a strong ETag or a version identify it, so that a replaced object shows without a look at its bytes? */
bool http_object_exact(const struct http_object *o);
/* Will any later change of its bytes show in these properties?  The ETag of a web server is often time and size, and a
 * file may be written twice in a second; so the object must have been seen HTTP_OLD_SECONDS after its time, by the
 * server's clock.  content_hash: the place's ETags change whenever the bytes do. */
#define HTTP_OLD_SECONDS 2 /* one, and a tick of a file system's clock */
bool http_object_settled(const struct http_object *o, bool content_hash);
/* Can both be the same object, as far as they are known?  Errors: ZF_E_STALE. */
bool http_object_same(const struct http_object *was, const struct http_object *is,
                      struct zf_err *err) ZF_CHECKED;

struct http_reply {
    long status; /* 0: there was no answer */
    struct http_object object;
    uint8_t *body; /* malloc'ed, a zero byte behind it; the beginning of an error's */
    size_t n_body;
    uint64_t len; /* bytes of the range */
    char *url;    /* behind all redirects */
    char *head;   /* the header lines of all answers, redirects included */
    size_t last;  /* offset in head of the last answer's */
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
    if (r->body)
        explicit_bzero(r->body, r->n_body);
    http_reply_fini(r);
}

/* ---- signing --------------------------------------------------------------------------------- */

/* The request as it goes out. */
struct auth_ask {
    const char *method, *url;  /* url: percent-encoded, as on the wire */
    const char *const *header; /* "Name: value": Range, If-Match, the caller's */
    size_t n_header;
    const void *body;
    size_t n_body;
};

struct auth;
struct auth_ops {
    /* Adds the headers of a signature.  *generation: the number of the credentials (and region) used; new ones have a
     * higher number. */
    bool (*sign)(struct auth *a, const struct auth_ask *ask, struct headers *add,
                 uint64_t *generation, struct zf_err *err);
    /* The server answered 400, 401 or 403 (refused has status, headers and body) to a request signed with `generation`.
     * True: there are newer credentials now, or another region was learnt; one more attempt is worth it.  NULL = never. */
    bool (*renew)(struct auth *a, uint64_t generation, const struct http_reply *refused);
    /* Fills *err with the reason why the server refused (a status of 300 or more); false always.  listing: a directory was
     * asked for.  NULL = the client's own message. */
    bool (*explain)(struct auth *a, const struct http_reply *refused, bool listing,
                    struct zf_err *err);
    void (*fini)(struct auth *a);
};

/* Signs all requests of a place, and none that a redirect sends to another host.  It may ask for credentials with http_do
 * (straight), and is called by several threads at once. */
struct auth {
    const struct auth_ops *ops;
};

/* NULL is fine. */
static inline void auth_free(struct auth *a)
{
    if (a)
        a->ops->fini(a);
}

/* ---- asking ------------------------------------------------------------------------------------ */

/* Takes the body of a range as it comes, in the thread that asks. */
struct http_sink {
    /* Called before the first byte of each attempt whose head is good.  is: the object of the answer; sized: the
     * answer has a length, so that no more can come.  False with an error refuses it. */
    bool (*begin)(void *ctx, const struct http_object *is, bool sized, struct zf_err *err);
    /* n bytes at `at` of the range; after a failed attempt they come again. */
    void (*put)(void *ctx, uint64_t at, const void *p, size_t n);
    void *ctx;
};

/* A request's place in the queue of its host.  Zero but for the first members. */
struct http_turn {
    struct http_host *host;
    /* requests of one object; together at most 3/4 of the free connections.  0: of none */
    uint64_t lane;
    bool ahead; /* nobody waits for it yet: others go first */
    /* Makes the one request, with ask.turn, when there is a connection; in a thread of the client's pool.  The turn ends
     * with http_do.  NULL: a thread waits in http_do. */
    void (*run)(struct http_turn *t);
    /* Of the client. */
    struct http_turn *prev, *next;
    double deadline;      /* seconds of http_now */
    bool extra;           /* beyond the bound on connections */
    bool granted, taken;  /* has a connection; and a thread */
    void *multi;          /* the connection, a CURLM; NULL: none was needed yet */
    pthread_cond_t moved; /* granted, or the client ends */
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
    /* the object as it was first seen, for If-Match and all checks; NULL: unknown */
    const struct http_object *same;
    uint64_t max_body;      /* without a range; 0 = 1 MiB.  Errors: ZF_E_LIMIT */
    struct auth *auth;      /* NULL: none; signs each attempt */
    bool netrc;             /* user and password are those of the netrc file */
    struct http_sink sink;  /* put NULL: the body is kept in the reply */
    struct http_turn *turn; /* that was given to http_later; NULL: queues now */
    bool secret;            /* the path is as good as a password: messages show the host alone */
    /* the request or its answer holds credentials: a redirect is refused, as with every method but GET and HEAD */
    bool straight;
    double timeout; /* seconds; 0 = the client's */
    unsigned tries; /* at most; 0 = the client's choice */
};

struct http;
struct http_host;
/* Errors: ZF_E_NOMEM, ZF_E_IO no thread. */
struct http *http_new(const struct zf_remote_opts *o, struct zf_err *err) ZF_CHECKED;
/* Ends the requests of http_later; no other may be under way. */
void http_free(struct http *h);

/* Asks and waits.  Statuses from 200 to 299 are success.  *out is filled as far as it is known on
 * failure too, and is for http_reply_fini in any case.
 * Errors (path: the URL without its query): ZF_E_NOENT 404, 410; ZF_E_STALE another object than
 * `same`; ZF_E_IO all else; ZF_E_LIMIT a body over max_body. */
bool http_do(struct http *h, const struct http_ask *ask, struct http_reply *out,
             struct zf_err *err) ZF_CHECKED;

/* Queues it and does not wait.  If the client ends first, run is called nevertheless, and http_do fails. */
void http_later(struct http *h, struct http_turn *t);

/* Asks for those of the things 0 … n-1 that are due, as many at a time as a host has connections.  The first failure, of
 * *bad_out, ends it: no more are begun. */
struct http_many {
    bool (*due)(void *ctx, size_t i);                     /* NULL: all are */
    bool (*ask)(void *ctx, size_t i, struct zf_err *err); /* from any thread */
    void *ctx;
};
bool http_each(struct http *h, const struct http_many *m, size_t n, size_t *bad_out,
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
