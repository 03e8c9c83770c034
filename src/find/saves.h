/* SPDX-License-Identifier: Apache-2.0 */
/* The directories that hold a save, in a run directory and further down. */
#ifndef FIND_SAVES_H
#define FIND_SAVES_H

#include <zf/find.h>

static inline void zf_auto_saves(struct zf_saves *s)
{
    zf_saves_free(s);
}

/* The saves nearest to st: in its directories or, when none of them is one, in theirs, and so on.
 * Names are paths from st, in natural order. */
bool saves_nearest(struct zf_store *st, const struct zf_limits *lim, struct zf_saves *out,
                   struct zf_err *err) ZF_CHECKED;

/* Adds a save; copies path. */
bool saves_add(struct zf_saves *s, const char *path, struct zf_err *err) ZF_CHECKED;

/* Does the directory `name` of st hold a save that came to its end and has weights?  Where that
 * cannot be known it may: *why (else ZF_OK) says why. */
bool saves_is_whole(struct zf_store *st, const char *name, const struct zf_limits *lim,
                    struct zf_err *why);

/* Takes away Megatron's "release", weights without a step that a converter made, where iterations
 * of a training run lie beside it: none of them is older. */
void saves_drop_release(struct zf_saves *s);

/* By their names all these directories are parts of one save. */
bool saves_are_parts(const struct zf_saves *s);

/* All of s are of a kind that is not read: *err says so of the first. */
bool saves_all_foreign(struct zf_store *st, const struct zf_saves *s, struct zf_err *err);

#endif
