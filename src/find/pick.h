/* SPDX-License-Identifier: Apache-2.0 */
/* The words that -o tag= accepts besides a directory's name: a step number, latest, newest, whole. */
#ifndef FIND_PICK_H
#define FIND_PICK_H

#include <zf/find.h>

/* Writes "a, b, c, …" to out[n]: the saves of s, as paths from the path that the user gave.  above: the
 * path from there to the directory in which they were found, or NULL. */
void saves_print(const struct zf_saves *s, const char *above, char *out, size_t n);

/* Writes why `name` of the saves s is opened: the newest of several or, if `only`, the only one; and how
 * many unfinished ones were skipped. */
void pick_note(const struct zf_saves *s, const char *name, bool only, char note[160]);

/* Fails with "there is no save TAG here", and a list of those that exist.  Returns false. */
bool pick_none(struct zf_store *st, const struct zf_open_opts *o, const char *tag,
                    struct zf_err *err);

/* The save of st that o->tag selects, as a path from st, malloc'ed; "" for st itself.  A directory of
 * exactly that name comes first.  A name that does not exist is returned unchanged.
 * note[160]: why this save, or "".
 * Errors: ZF_E_USAGE no save, or more than one, is meant. */
bool pick_by_tag(struct zf_store *st, const struct zf_open_opts *o, char **name_out,
                       char *note, struct zf_err *err) ZF_CHECKED;

/* Is o->tag the word `whole`: the newest save that can be opened without -o degraded? */
bool pick_is_whole(struct zf_store *st, const struct zf_open_opts *o);

/* Sorts by the steps in their names, the newest first. */
void saves_sort_newest(struct zf_saves *s);

/* The saves below st that look finished, the newest (by its step) first; empty if st itself is the save,
 * and there is no numbered one below.
 * Errors: ZF_E_USAGE there is none, or several whose names hold no step. */
bool pick_by_age(struct zf_store *st, const struct zf_open_opts *o, struct zf_saves *out,
                      struct zf_err *err) ZF_CHECKED;

#endif
