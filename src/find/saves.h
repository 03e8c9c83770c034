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

/* Adds the save `name` in `dir`, a path from the listed directory or "". */
bool saves_add(struct zf_saves *s, const char *dir, const char *name, struct zf_err *err);

/* Finds out how well save i fits a family: NAMES if it cannot be read, because it may be a save, and opening it
 * reports the error, which s->unknown becomes, too. */
void saves_examine(struct zf_store *st, struct zf_saves *s, size_t i, const struct zf_limits *lim);

/* Marks a save for saves_squeeze, which removes all that are marked. */
void saves_drop(struct zf_save_dir *d);
void saves_squeeze(struct zf_saves *s);

/* Removes Megatron's "release", a converter's weights without a step, if there are iterations of a
 * training run next to it: none of them is older. */
void saves_drop_release(struct zf_saves *s);

/* Are all these directories, by their names, parts of one save? */
bool saves_are_parts(const struct zf_saves *s);

/* Sorts by the steps in their names, the newest first. */
void saves_sort_newest(struct zf_saves *s);

/* Writes "a, b, c, …" to out[n]: the saves of s, as paths from the path that the user gave.  above: the path from there
 * to the directory in which they were found, or NULL. */
void saves_print(const struct zf_saves *s, const char *above, char *out, size_t n);

#endif
