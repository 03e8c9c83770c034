/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the saves in a run directory and its subdirectories. */
#ifndef FIND_SAVES_H
#define FIND_SAVES_H

#include <zf/find.h>

static inline void zf_auto_saves(struct zf_saves *s)
{
    zf_saves_free(s);
}

/* The saves nearest to st: among its directories or, if none of them is one, among theirs, and so on.
 * Names are paths from st, in natural order. */
bool saves_nearest(struct zf_store *st, const struct zf_limits *lim, struct zf_saves *out,
                   struct zf_err *err) ZF_CHECKED;

/* Adds a save; copies path. */
bool saves_add(struct zf_saves *s, const char *path, struct zf_err *err) ZF_CHECKED;

/* Is the directory `name` of st a finished save with weights?  True, too, if that cannot be found out:
 * *why (else ZF_OK) says why. */
bool saves_is_whole(struct zf_store *st, const char *name, const struct zf_limits *lim,
                    struct zf_err *why);

/* Removes Megatron's "release", a converter's weights without a step, if there are iterations of a
 * training run next to it: none of them is older. */
void saves_drop_release(struct zf_saves *s);

/* Are all these directories, by their names, parts of one save? */
bool saves_are_parts(const struct zf_saves *s);

/* Are all of s in formats that zerofs does not read?  *err: the message for the first. */
bool saves_all_foreign(struct zf_store *st, const struct zf_saves *s, struct zf_err *err);

#endif
