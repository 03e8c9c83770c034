/* SPDX-License-Identifier: Apache-2.0 */
/* The words that -o tag= takes besides a directory's name: a step number, latest, newest, whole. */
#ifndef FIND_SAVE_WORD_H
#define FIND_SAVE_WORD_H

#include <zf/find.h>

/* "a, b, c, …" in out[n]: the saves of s, as paths from what the user pointed at.  above: the path
 * from there to the directory they were found in, or NULL. */
void save_word_list(const struct zf_saves *s, const char *above, char *out, size_t n);

/* Why `name` of the saves s is opened: the newest of several or, if `only`, the only one; and how
 * many unfinished ones were left out. */
void save_word_note(const struct zf_saves *s, const char *name, bool only, char note[160]);

/* Fills *err with "there is no save TAG here", and what there is.  Returns false. */
bool save_word_none(struct zf_store *st, const struct zf_open_opts *o, const char *tag,
                    struct zf_err *err);

/* The save of st that o->tag means, as a path from st, malloc'ed; "" when st itself is meant.  A
 * directory of that very name comes first.  A name that is nowhere is given back as it is.
 * note[160]: why this one, or "".
 * Errors: ZF_E_USAGE no save, or more than one, is meant. */
bool save_word_resolve(struct zf_store *st, const struct zf_open_opts *o, char **name_out,
                       char *note, struct zf_err *err) ZF_CHECKED;

/* True when o->tag is the word `whole`: the newest save that can be opened without -o degraded. */
bool save_word_is_whole(struct zf_store *st, const struct zf_open_opts *o);

/* By the steps in their names, the newest first. */
void save_word_sort(struct zf_saves *s);

/* The saves below st that look finished, the newest (by its step) first; none: st itself is the save,
 * and there is no numbered one below.
 * Errors: ZF_E_USAGE there is none, or several whose names hold no step. */
bool save_word_by_age(struct zf_store *st, const struct zf_open_opts *o, struct zf_saves *out,
                      struct zf_err *err) ZF_CHECKED;

#endif
