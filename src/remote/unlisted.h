/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of a place without listings: their entries are those of the list zerofs.index.json (index_file.h) or,
 * without one, the names of checkpoints that a HEAD finds (names.h). */
#ifndef REMOTE_UNLISTED_H
#define REMOTE_UNLISTED_H

#include "names.h"
#include "place.h"

struct unlisted;
/* p and lim are borrowed.  Errors: ZF_E_NOMEM. */
struct unlisted *unlisted_new(struct place *p, const struct zf_limits *lim,
                              struct zf_err *err) ZF_CHECKED;
void unlisted_free(struct unlisted *u);

/* Was zerofs.index.json found?  Then no listing is asked for any more. */
bool unlisted_known(struct unlisted *u);

/* Adds what is in `dir`.  From several threads at once.  Errors: ZF_E_NOENT nothing is found; those
 * of names_list and index_file_read. */
bool unlisted_list(struct unlisted *u, const char *dir, struct entries *out,
                   struct zf_err *err) ZF_CHECKED;

/* Are these files there?  All are asked for at the same time. */
bool unlisted_have(struct unlisted *u, const char *const *path, size_t n, struct names_found *out,
                   struct zf_err *err) ZF_CHECKED;

/* Does the answer say that there is no such file?  Without the right to list, servers answer 403 for a missing one. */
bool unlisted_missing(const struct http_reply *r);

#endif
