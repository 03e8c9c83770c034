/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of a place without listings.  Their entries come from the list zerofs.index.json (index_file.h) or, without
 * it, from HEAD requests for the usual names of checkpoint files (names.def). */
#ifndef REMOTE_UNLISTED_H
#define REMOTE_UNLISTED_H

#include "entries.h"
#include "place.h"

#define NAMES_UNSIZED UINT64_MAX

struct names_found {
    bool is;       /* the file exists */
    uint64_t size; /* bytes, or NAMES_UNSIZED */
};

/* How files are requested. */
struct names_ops {
    /* Checks in parallel which of the n files exist.  Errors: an answer that does not tell. */
    bool (*have)(void *ctx, const char *const *path, size_t n, struct names_found *out,
                 struct zf_err *err);
    /* Fetches a whole file, malloc'ed; *n_out is its size. */
    char *(*get)(void *ctx, const char *path, uint64_t max_bytes, uint64_t *n_out,
                 struct zf_err *err);
};

struct names;
/* ctx and lim are borrowed. */
struct names *names_new(const struct names_ops *ops, void *ctx, const struct zf_limits *lim,
                        struct zf_err *err) ZF_CHECKED;
void names_free(struct names *n);

/* Adds the files that exist in `dir` ("" = the place).  Thread: any.  focus: the file that the user's URL points at, or
 * NULL.  Errors: ZF_E_NOENT none exists; ZF_E_UNKNOWN the server answers for every name, existing or not; those of the
 * server. */
bool names_list(struct names *n, const char *dir, const char *focus, struct entries *out,
                struct zf_err *err) ZF_CHECKED;

/* ---- directories ------------------------------------------------------------------------------- */

struct unlisted;
/* p and lim are borrowed.  Errors: ZF_E_NOMEM. */
struct unlisted *unlisted_new(struct place *p, const struct zf_limits *lim,
                              struct zf_err *err) ZF_CHECKED;
void unlisted_free(struct unlisted *u);

/* Was zerofs.index.json found?  Then no listing needs to be requested. */
bool unlisted_known(struct unlisted *u);

/* Adds the entries of `dir`.  Thread: any.  Errors: ZF_E_NOENT nothing was found; those of names_list and
 * index_file_read. */
bool unlisted_list(struct unlisted *u, const char *dir, struct entries *out,
                   struct zf_err *err) ZF_CHECKED;

/* Checks in parallel which of these files exist.  Errors: as names_ops.have; ZF_E_LIMIT head_requests. */
bool unlisted_have(struct unlisted *u, const char *const *path, size_t n, struct names_found *out,
                   struct zf_err *err) ZF_CHECKED;

/* Does the response mean that the file does not exist?  To clients that may not list, servers answer 403 for a missing
 * file. */
bool unlisted_missing(const struct http_reply *r);

#endif
