/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that a place does not list: what the list zerofs.index.json of the place says
 * (index_file.h), or, where there is none, what answers of the names that checkpoints have
 * (names.h). */
#ifndef REMOTE_UNLISTED_H
#define REMOTE_UNLISTED_H

#include "names.h"
#include "place.h"

struct unlisted;
/* p and lim are borrowed.  Errors: ZF_E_NOMEM. */
struct unlisted *unlisted_new(struct place *p, const struct zf_limits *lim,
                              struct zf_err *err) ZF_CHECKED;
void unlisted_free(struct unlisted *u);

/* Was the place's list found?  Then it need not be asked for listings any more. */
bool unlisted_known(struct unlisted *u);

/* Adds what is in `dir`.  From several threads at once.  Errors: ZF_E_NOENT nothing is found; those
 * of names_list and index_file_read. */
bool unlisted_list(struct unlisted *u, const char *dir, struct entries *out,
                   struct zf_err *err) ZF_CHECKED;

/* Are these files there?  All are asked for at the same time. */
bool unlisted_have(struct unlisted *u, const char *const *path, size_t n, struct names_found *out,
                   struct zf_err *err) ZF_CHECKED;

/* Is this an answer, and what it says is that there is no such file?  Servers without the right to
 * list answer 403 for what is missing. */
bool unlisted_missing(const struct http_reply *r);

#endif
