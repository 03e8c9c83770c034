/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and opens the checkpoint at a path.
 *
 * Users name a file, a save, the directory of a training run, or one above it; scripts add -o tag=.  src/find finds the
 * one save that is meant, or says why there is none:
 *
 * locate.c     the way down, one directory after the other, until a family fits
 * match.c      which family fits a directory, and how well; table.def lists them, foreign.c knows what is not read
 * latest.c     the save that a run directory names as its latest
 * saves.c      the saves in a directory, or nearest below it: a struct zf_save_dir each; save_name.c reads their names
 * pick.c       which of them -o tag= means, a step or a word; whole.c the newest that lacks nothing
 * loose.c      weight files next to saves; newer.c saves that are newer than the one that is shown
 *
 * open.c then lets the family describe the save, adds the side files (sidefiles.c), notes what is missing or not shown
 * (rankfiles.c, unshown.c), and seals. */
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

/* A directory of a run that is a save, or is named like one. */
struct zf_save_dir {
    char *path;     /* from the listed directory; malloc'ed */
    int64_t step;   /* by its name; -1: the name has none */
    int64_t number; /* the step or, if the name is only a number, that; -1: neither */
    enum zf_fit
        fit; /* ZF_FIT_WEAK: unfinished, or without weights; ZF_FIT_NO: no save, or not known */
};

/* The saves of a run directory in natural order: a number is below a greater one.  Free it with zf_saves_free. */
struct zf_saves {
    struct zf_save_dir *at; /* zf/base/vec.h */
    size_t n, cap;
    size_t latest; /* the one that `latest` names; n = none */
    size_t weak;   /* number of unfinished saves that were left out */
    bool begun;    /* all saves are unfinished or without weights, so none was left out */
    bool part;     /* some directories were not examined: there may be more saves */
    /* why it is not known whether one of the directories is a save; code ZF_OK: all are known */
    struct zf_err unknown;
};

/* What zf_saves_list lists of the directories in a run directory. */
enum zf_saves_kind {
    ZF_SAVES_NAMED, /* those that are named like saves of a series; nothing in them is read */
    ZF_SAVES_WHOLE, /* those that are finished saves with weights; if there are none, other saves */
    ZF_SAVES_BOTH,
};
/* Lists the directories of that kind in st; lim may be NULL for ZF_SAVES_NAMED.  Errors: st cannot be listed; whether
 * something names the latest save cannot be read; ZF_E_NOMEM. */
bool zf_saves_list(struct zf_store *st, enum zf_saves_kind kind, const struct zf_limits *lim,
                   struct zf_saves *out, struct zf_err *err) ZF_CHECKED;
void zf_saves_free(struct zf_saves *s);

#endif
