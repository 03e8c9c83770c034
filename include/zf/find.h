/* SPDX-License-Identifier: Apache-2.0 */
/* From a place in a file system to a sealed checkpoint.
 *
 * People point at a file, a save, the directory of a training run, or one above it; scripts add
 * -o tag=.  src/find goes from there to the one save that is meant, or says why none is
 * (locate.c): match.c asks the families about a directory, latest.c and promise.c follow the files
 * that name the latest save, saves.c looks further down, save_word.c resolves -o tag=, and
 * foreign.c knows what zerofs does not read.  open.c then lets the family that won describe the
 * save, adds the side files, and seals. */
#ifndef ZF_FIND_H
#define ZF_FIND_H

#include <zf/format.h>

/* Finds the checkpoint that st means, chooses the format, opens and seals it.  Takes its own
 * reference on st.
 * Errors: ZF_E_UNKNOWN nothing fits (the sentence says what to point at, if something near does);
 * ZF_E_FORMAT; ZF_E_USAGE unknown format or tag. */
struct zf_checkpoint *zf_open(struct zf_store *st, const struct zf_open_opts *o,
                              struct zf_err *err) ZF_CHECKED;

/* The i-th kind of source that one family alone makes, or NULL: no more. */
const struct zf_source_kind *zf_find_kind(size_t i);

/* The name of the i-th family, as -o format= takes it, or NULL: no more. */
const char *zf_find_format(size_t i);

/* The saves of a run directory, in order of age, newest last.  Freed with zf_saves_free. */
struct zf_saves {
    char **name; /* malloc'ed array of malloc'ed paths */
    size_t n;
    size_t latest; /* the one that `latest` names; n = none */
    size_t weak;   /* unfinished ones that were left out */
    bool begun;    /* all of them are unfinished, or without weights: none was left out */
    bool part;     /* there are directories that were not looked at: there may be more */
    /* why it cannot be known whether one of them is a save; code ZF_OK: it can */
    struct zf_err unknown;
};
bool zf_saves_list(struct zf_store *st, const struct zf_limits *lim, struct zf_saves *out,
                   struct zf_err *err) ZF_CHECKED;
/* The directories of a run directory whose names are those of saves, whatever they hold. */
bool zf_saves_by_name(struct zf_store *st, struct zf_saves *out, struct zf_err *err) ZF_CHECKED;
void zf_saves_free(struct zf_saves *s);

#endif
