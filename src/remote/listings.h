/* SPDX-License-Identifier: Apache-2.0 */
/* Parsers of directory listings; they make no requests.  Web servers send JSON (nginx, Caddy) or HTML (nginx, Apache,
 * lighttpd, Python's http.server, Go's FileServer). */
#ifndef REMOTE_LISTINGS_H
#define REMOTE_LISTINGS_H

#include <zf/base/out.h>

#include "entries.h"

/* ---- web servers (autoindex*.c, href.c) --------------------------------------------------------------------------------- */

/* Adds the entries of the listing body[n] of the directory at `url` (absolute, with a '/' at its end).
 * type: its Content-Type, or NULL.
 * Errors: ZF_E_UNSUPPORTED no known kind of listing; ZF_E_FORMAT one that is cut short or contradicts itself; ZF_E_LIMIT dir_entries, json_bytes, json_depth; ZF_E_NOMEM. */
bool autoindex_read(const char *body, uint64_t n, const char *type, const char *url,
                    const struct zf_limits *lim, struct entries *out,
                    struct zf_err *err) ZF_CHECKED;

/* The same for an HTML page, and for a JSON document. */
bool autoindex_html(const char *body, uint64_t n, const char *url, struct entries *out,
                    struct zf_err *err) ZF_CHECKED;
bool autoindex_json(const char *body, uint64_t n, const struct zf_limits *lim, struct entries *out,
                    struct zf_err *err) ZF_CHECKED;

/* Adds the text of an HTML attribute p[n] with its character references decoded (&amp; &lt; &gt; &quot; &apos; &nbsp; and
 * numbers). */
void href_text(struct zf_out *out, const char *p, size_t n);

/* Finds the entry to which a link leads.  ref[ref_n]: the link, decoded from HTML; base: absolute URL of the directory,
 * ending in '/'.  True: an entry, with its name in *name (emptied first); a name that cannot be decoded (%00, %zz) stays
 * encoded, followed by a '/', so that entries_add refuses it. */
bool href_entry(const char *base, const char *ref, size_t ref_n, struct zf_out *name,
                bool *dir_out);

/* ---- the hub (hub_json.c) ------------------------------------------------------------------------------------- */

/* Adds the entries of a page of GET /api/models/OWNER/NAME/tree/COMMIT/DIR: an array of {"type": "file" |
 * "directory", "path" from the repository's root, "size", "lfs": {"size"}}.  The size of an LFS file is that of its
 * contents, not of the pointer.  Errors: ZF_E_FORMAT; ZF_E_LIMIT; ZF_E_NOMEM. */
bool hub_tree_page(const char *body, uint64_t n, const char *dir, const struct zf_limits *lim,
                   struct entries *out, struct zf_err *err) ZF_CHECKED;

/* The commit ("sha", 40 hex digits) in the answer of GET /api/models/OWNER/NAME/revision/REV. */
bool hub_commit(const char *body, uint64_t n, const struct zf_limits *lim, char commit[41],
                struct zf_err *err) ZF_CHECKED;

/* The URL of rel="next" in a Link header; false: this is the last page. */
bool hub_next(const char *link, struct zf_out *url);

/* ---- buckets (s3_list.c) ------------------------------------------------------------------------------------- */

struct list_token;
struct s3_list {
    const char *prefix;        /* "" or ending in '/'; borrows */
    struct entries *out;       /* borrows */
    bool marker;               /* the directory itself is an object, "prefix/" */
    bool more;                 /* there is a next page */
    struct zf_out token;       /* its continuation token, not encoded */
    struct list_token *tokens; /* tokens seen so far; uthash */
    unsigned idle;             /* consecutive pages without a new name */
};

/* Adds the entries of a page p[n]; sets `more` and `token` for the next one.
 * Errors: ZF_E_FORMAT with the byte, or the key; those of entries_add. */
bool s3_list_page(struct s3_list *l, const void *p, size_t n, struct zf_err *err) ZF_CHECKED;

void s3_list_fini(struct s3_list *l);

static inline void zf_auto_s3_list(struct s3_list *l)
{
    s3_list_fini(l);
}

#endif
