/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses one save of a run: the one that -o tag= means, or without it the only one, or the newest of a series.  A word
 * that could mean two saves is refused. */
#ifndef FIND_PICK_H
#define FIND_PICK_H

#include <zf/find.h>

/* The only save in s, or the newest of a numbered series (borrowed); note: which it is.  above: the path from what the
 * user gave to st, or NULL.
 * NULL: ZF_E_UNKNOWN there are several; ZF_E_UNSUPPORTED parts of one, or formats that zerofs does not read; s->unknown. */
const char *pick_one(struct zf_store *st, const struct zf_saves *s, const char *above,
                     char note[160], struct zf_err *err) ZF_CHECKED;

/* Fails with "there is no save TAG here", and a list of those that exist.  Returns false. */
bool pick_none(struct zf_store *st, const struct zf_open_opts *o, const char *tag,
               struct zf_err *err);

/* The save of st that o->tag selects, as a path from st, malloc'ed; "" for st itself.  A directory of
 * exactly that name comes first.  A name that does not exist is returned unchanged.
 * note[160]: why this save, or "".
 * Errors: ZF_E_USAGE no save, or more than one, is meant. */
bool pick_by_tag(struct zf_store *st, const struct zf_open_opts *o, char **name_out, char *note,
                 struct zf_err *err) ZF_CHECKED;

/* Is o->tag the word `whole`: the newest save that can be opened without -o degraded? */
bool pick_is_whole(struct zf_store *st, const struct zf_open_opts *o);

/* The saves below st that look finished, the newest (by its step) first; empty if st itself is the save,
 * and there is no numbered one below.
 * Errors: ZF_E_USAGE there is none, or several whose names hold no step. */
bool pick_by_age(struct zf_store *st, const struct zf_open_opts *o, struct zf_saves *out,
                 struct zf_err *err) ZF_CHECKED;

#endif
