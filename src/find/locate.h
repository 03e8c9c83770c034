/* SPDX-License-Identifier: Apache-2.0 */
/* From what the user pointed at to the directory that holds one save. */
#ifndef FIND_LOCATE_H
#define FIND_LOCATE_H

#include "match.h"
#include "newer.h"

/* Where the checkpoint is, and how it was found. */
struct located {
    struct zf_store *dir;   /* of the save, or the run directory whose `latest` names it */
    struct zf_store *outer; /* the directory in which `dir` was found, or NULL: it was pointed at */
    struct zf_store *loose; /* the run directory whose files of weights may be meant, or NULL */
    char *path;             /* from what was pointed at to `dir`, or NULL */
    char *tag;              /* of the save, as -o tag takes it, or NULL: it was pointed at */
    char *one;              /* the file that a tracker names as the save, or NULL */
    char note[160];         /* why this save and no other, or "" */
    char newer[NEWER_NOTE]; /* which newer save there is, or "" */
    char beside[NEWER_NOTE]; /* what else there is that could have been meant, or "" */
    struct match match;      /* the family, and what it opens */
};

void located_fini(struct located *l);
static inline void zf_auto_located(struct located *l)
{
    located_fini(l);
}

/* Looks at st, then into run directories and those below.  out is the caller's to free, also after a
 * failure.
 * Errors: ZF_E_UNKNOWN nothing fits, or several do below: the sentence says what to point at;
 * ZF_E_UNSUPPORTED something is there that zerofs does not read; ZF_E_FORMAT what a pointer file
 * names is no save; ZF_E_USAGE no such tag. */
bool locate(struct zf_store *st, const struct zf_open_opts *o, struct located *out,
            struct zf_err *err) ZF_CHECKED;

#endif
