/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of a place without listings: their entries are those of the list zerofs.index.json (index_file.h) or,
 * without one, the names of checkpoints that a HEAD finds (names.def). */
#ifndef REMOTE_UNLISTED_H
#define REMOTE_UNLISTED_H

#include "entries.h"
#include "place.h"

#define NAMES_UNSIZED UINT64_MAX

struct names_found {
    bool is;
    uint64_t size; /* or NAMES_UNSIZED */
};

/* How names are tried. */
struct names_ops {
    /* Are these files there?  n of them, asked for at the same time.  Errors: it cannot be known. */
    bool (*have)(void *ctx, const char *const *path, size_t n, struct names_found *out,
                 struct zf_err *err);
    /* A whole file, malloc'ed. */
    char *(*get)(void *ctx, const char *path, uint64_t max_bytes, uint64_t *n_out,
                 struct zf_err *err);
};

struct names;
/* ctx and lim are borrowed. */
struct names *names_new(const struct names_ops *ops, void *ctx, const struct zf_limits *lim,
                        struct zf_err *err) ZF_CHECKED;
void names_free(struct names *n);

/* Adds the files that exist in `dir` ("" = the place).  From several threads at once.  focus: the one file of the place
 * that the user names, or NULL.  Errors: ZF_E_NOENT none exists; ZF_E_UNKNOWN the server has every name that it is asked
 * for; those of the server. */
bool names_list(struct names *n, const char *dir, const char *focus, struct entries *out,
                struct zf_err *err) ZF_CHECKED;

/* ---- directories ------------------------------------------------------------------------------- */

struct unlisted;
/* p and lim are borrowed.  Errors: ZF_E_NOMEM. */
struct unlisted *unlisted_new(struct place *p, const struct zf_limits *lim,
                              struct zf_err *err) ZF_CHECKED;
void unlisted_free(struct unlisted *u);

/* Was zerofs.index.json found?  Then no listing is asked for any more. */
bool unlisted_known(struct unlisted *u);

/* Adds the entries of `dir`.  From several threads at once.  Errors: ZF_E_NOENT nothing is found; those
 * of names_list and index_file_read. */
bool unlisted_list(struct unlisted *u, const char *dir, struct entries *out,
                   struct zf_err *err) ZF_CHECKED;

/* Are these files there?  All are asked for at the same time. */
bool unlisted_have(struct unlisted *u, const char *const *path, size_t n, struct names_found *out,
                   struct zf_err *err) ZF_CHECKED;

/* Does the answer say that there is no such file?  Without the right to list, servers answer 403 for a missing one. */
bool unlisted_missing(const struct http_reply *r);

#endif
