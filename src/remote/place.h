/* SPDX-License-Identifier: Apache-2.0 */
/* A place: the directory at the user's URL.  It lists its directories and makes the requests for its objects. */
#ifndef REMOTE_PLACE_H
#define REMOTE_PLACE_H

#include <stdatomic.h>

#include <zf/base/limits.h>

#include "entries.h"
#include "http.h"

/* The request for an object. */
struct place_at {
    char *url;                 /* malloc'ed */
    const char *const *header; /* "Name: value", borrowed from the place, as auth */
    size_t n_header;
    struct auth *auth; /* NULL = none */
    bool netrc;        /* as in struct http_ask */
};
static inline void zf_auto_place_at(struct place_at *at)
{
    free(at->url);
}
/* The GET request of `at`, from which it borrows. */
struct http_ask place_ask(const struct place_at *at);

struct place;
/* Sends a HEAD for the object at `path`; *out as with http_do. */
bool place_head(struct place *p, const char *path, struct http_reply *out,
                struct zf_err *err) ZF_CHECKED;
/* Checks the number of HEAD requests that a listing, or a file that names others, would cause.  most: limit
 * head_requests.  Errors: ZF_E_LIMIT. */
bool place_may_ask(size_t n, uint64_t most, struct zf_err *err) ZF_CHECKED;
/* Sends a HEAD for each file in `dir` without a size in the listing, in parallel, at most `most` of them.  Formats need the
 * sizes (an empty zarr chunk consists of fill values).  named: sends nothing, only sets entry.asked.
 * Errors: ZF_E_IO no answer, ZF_E_LIMIT, ZF_E_NOMEM. */
bool place_complete(struct place *p, const char *dir, struct entries *all, bool named,
                    uint64_t most, struct zf_err *err) ZF_CHECKED;

/* Paths are relative to the place, without "." and "..", not percent-encoded; "" is the place itself. */
struct place_ops {
    /* Adds the entries of the directory to *out, which is empty.  ZF_E_NOENT: no such directory; ZF_E_UNSUPPORTED: this
     * place has no listings, but files can be requested by name. */
    bool (*list)(struct place *p, const char *dir, struct entries *out, struct zf_err *err);
    /* Makes the request for an object.  Errors: ZF_E_NOMEM. */
    bool (*at)(struct place *p, const char *path, struct place_at *out, struct zf_err *err);
    void (*fini)(struct place *p);
};

struct place {
    const struct place_ops *ops;
    struct http *http; /* borrowed */
    char *shown;       /* the user's address, "http://host/dir", no slash at the end; malloc'ed */
    char *focus;    /* file below `shown` that the user's URL points at, malloc'ed; NULL = none */
    bool immutable; /* pinned to a commit, which is part of `shown` */
    /* every change of the bytes changes the ETag, even within a second: object stores */
    bool etag_is_content_hash;
    /* listings are complete, except for names that begin with a dot */
    atomic_bool lists_all;
    bool lists_dots; /* they include names that begin with a dot */
};

/* Arguments of a scheme's opener. */
struct place_new {
    struct http *http;
    const struct zf_limits *lim;
    /* as the user gave it, without user info or a slash at the end: "s3://b/p" */
    const char *address;
};
/* Allocates `each` bytes that begin with a struct place; the rest is zero.  Errors: ZF_E_NOMEM. */
void *place_make(size_t each, const struct place_ops *ops, const struct place_new *n,
                 struct zf_err *err) ZF_CHECKED;
/* Frees a place; called by ops->fini. */
void place_free(struct place *p);

/* The openers of table.def: place_open_http and so on. */
#define SCHEME(name, kind)                                                                         \
    struct place *place_open_##kind(const struct place_new *n, struct zf_err *err);
#include "table.def"
#undef SCHEME

#endif
