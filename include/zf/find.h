/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and opens the checkpoint at a path.
 *
 * Users name a file, a save, the directory of a training run, or one above it; scripts add -o tag=.  src/find finds the
 * one save that is meant, or says why there is none (locate.c): match.c probes a directory with all families, latest.c
 * and promise.c follow the files that name the latest save, saves.c searches the directories below, save_word.c
 * resolves -o tag=, and foreign.c recognizes formats that zerofs does not read.  open.c then lets the family that fits
 * describe the save, adds the side files, and seals. */
#ifndef ZF_FIND_H
#define ZF_FIND_H

#include <zf/format.h>

/* Finds the checkpoint that st means, chooses the format, opens and seals it.  Takes its own
 * reference on st.
 * Errors: ZF_E_UNKNOWN no format fits (the message suggests another path if one nearby does); ZF_E_FORMAT; ZF_E_USAGE
 * unknown format or tag. */
struct zf_checkpoint *zf_open(struct zf_store *st, const struct zf_open_opts *o,
                              struct zf_err *err) ZF_CHECKED;

/* The i-th kind of source that only one family makes, or NULL: no more. */
const struct zf_source_kind *zf_find_kind(size_t i);

/* The name of the i-th family, as -o format= takes it, or NULL: no more. */
const char *zf_find_format(size_t i);

/* The saves of a run directory, oldest first.  Free it with zf_saves_free. */
struct zf_saves {
    char **name; /* malloc'ed array of malloc'ed paths */
    size_t n;
    size_t latest; /* the one that `latest` names; n = none */
    size_t weak;   /* number of unfinished saves that were left out */
    bool begun;    /* all saves are unfinished or without weights, so none was left out */
    bool part;     /* some directories were not examined: there may be more saves */
    /* why it is not known whether one of the directories is a save; code ZF_OK: all are known */
    struct zf_err unknown;
};
bool zf_saves_list(struct zf_store *st, const struct zf_limits *lim, struct zf_saves *out,
                   struct zf_err *err) ZF_CHECKED;
/* Lists the directories of a run directory that are named like saves, whatever they contain. */
bool zf_saves_by_name(struct zf_store *st, struct zf_saves *out, struct zf_err *err) ZF_CHECKED;
void zf_saves_free(struct zf_saves *s);

#endif
