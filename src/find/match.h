/* SPDX-License-Identifier: Apache-2.0 */
/* Which family fits a directory: the rule of table.def. */
#ifndef FIND_MATCH_H
#define FIND_MATCH_H

#include <zf/format.h>

/* Whether the directory that was asked about names one save in it (-o tag, `latest`). */
enum match_run {
    MATCH_RUN_UNKNOWN, /* no family asked */
    MATCH_RUN_NONE,
    MATCH_RUN_NAMES, /* `named` is the save */
    MATCH_RUN_GONE,  /* the save that is named cannot be opened */
};

struct match {
    const struct zf_format *format; /* NULL: none fits */
    struct zf_probe probe;
    struct zf_save save; /* what `format` opens; borrows the directory and the two below */
    enum match_run run;
    struct zf_store *named; /* the save that -o tag or `latest` names, or NULL; owned */
    char *tag;              /* its path; owned */
};

void match_fini(struct match *m);
static inline void zf_auto_match(struct match *m)
{
    match_fini(m);
}

/* The file that the user pointed at and wants read by itself (borrowed), or NULL: the whole
 * directory is meant. */
const char *match_file(struct zf_store *st);

/* Asks every family about st (or only o->format).  A store focused on a plain file is shown only to
 * families that read one file; one on a manifest (.metadata, latest …) means its directory.
 * out borrows st and is the caller's to free, also after a failure.
 * Errors: ZF_E_FORMAT two families fit and neither refines the other; ZF_E_USAGE o->format is
 * unknown (the sentence lists the names); of the store. */
bool match_dir(struct zf_store *st, const struct zf_open_opts *o, struct match *out,
               struct zf_err *err) ZF_CHECKED;

/* The same for one file of it (borrowed), as if it had been pointed at, or NULL: all of it. */
bool match_one(struct zf_store *st, const char *file, const struct zf_open_opts *o,
               struct match *out, struct zf_err *err) ZF_CHECKED;

#endif
