/* SPDX-License-Identifier: Apache-2.0 */
/* A directory behind an address: lists itself, and makes the requests for its objects. */
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
    bool netrc;        /* as that of http_ask */
};
static inline void zf_auto_place_at(struct place_at *at)
{
    free(at->url);
}
/* An ask made of it, which borrows from it. */
struct http_ask place_ask(const struct place_at *at);

struct place;
/* Asks for the head of the object at `path`; *out as with http_do. */
bool place_head(struct place *p, const char *path, struct http_reply *out,
                struct zf_err *err) ZF_CHECKED;
/* Checks the number of HEAD requests that a listing, or a file that names others, would cause.  most: limit
 * head_requests.  Errors: ZF_E_LIMIT. */
bool place_may_ask(size_t n, uint64_t most, struct zf_err *err) ZF_CHECKED;
/* Sends a HEAD for each file in `dir` whose size the listing lacks, many at once, `most` at most: families rely on sizes
 * (an empty chunk of an array is a chunk of fill values).  named: only marks them, .asked.
 * Errors: ZF_E_IO nobody answers, ZF_E_LIMIT, ZF_E_NOMEM. */
bool place_complete(struct place *p, const char *dir, struct entries *all, bool named,
                    uint64_t most, struct zf_err *err) ZF_CHECKED;

/* Paths are relative, of plain components, not encoded; "" is the place itself. */
struct place_ops {
    /* Adds the entries of the directory to *out, which is empty.  ZF_E_NOENT: there is none; ZF_E_UNSUPPORTED: this
     * place lists nothing, but names may be asked for. */
    bool (*list)(struct place *p, const char *dir, struct entries *out, struct zf_err *err);
    /* Errors: ZF_E_NOMEM. */
    bool (*at)(struct place *p, const char *path, struct place_at *out, struct zf_err *err);
    void (*fini)(struct place *p);
};

struct place {
    const struct place_ops *ops;
    struct http *http; /* borrowed */
    char *shown;       /* the user's address, "http://host/dir", no slash at the end; malloc'ed */
    char *focus;       /* the one file that is meant, below `shown`; malloc'ed; or NULL */
    bool immutable;    /* a commit, which `shown` names */
    /* ETags change whenever the bytes do, also twice in a second: object stores */
    bool etag_is_content_hash;
    /* `list` gives all names, but for those with a dot in front */
    atomic_bool lists_all;
    bool lists_dots; /* … and those */
};

/* Arguments of a scheme's opener. */
struct place_new {
    struct http *http;
    const struct zf_limits *lim;
    /* as the user gave it, without user info or a slash at the end: "s3://b/p" */
    const char *address;
};
/* `each` bytes that begin with a struct place, zero behind that.  Errors: ZF_E_NOMEM. */
void *place_make(size_t each, const struct place_ops *ops, const struct place_new *n,
                 struct zf_err *err) ZF_CHECKED;
/* Frees it, for ops->fini. */
void place_free(struct place *p);

/* The openers of table.def: place_open_http and so on. */
#define SCHEME(name, kind)                                                                         \
    struct place *place_open_##kind(const struct place_new *n, struct zf_err *err);
#include "table.def"
#undef SCHEME

#endif
