/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the family that fits a directory, by the rule of table.def. */
#ifndef FIND_MATCH_H
#define FIND_MATCH_H

#include <zf/format.h>

#include "latest.h"

struct match {
    const struct zf_format *format; /* NULL: none fits */
    struct zf_probe probe;
    struct zf_save save;  /* what `format` opens; borrows the directory and `latest` */
    struct latest latest; /* the save that -o tag or DeepSpeed's `latest` names */
};

void match_fini(struct match *m);
static inline void zf_auto_match(struct match *m)
{
    match_fini(m);
}

/* The file that the user gave, to be read by itself (borrowed), or NULL: the whole directory is
 * meant. */
const char *match_file(struct zf_store *st);

/* Tries every family (or only o->format) on st.  If st is focused on a plain file, only families that
 * read single files are tried; a manifest (.metadata, latest …) stands for its directory.
 * out borrows st; the caller must free it, even after a failure.
 * Errors: ZF_E_FORMAT two families fit and neither refines the other; ZF_E_USAGE o->format is
 * unknown (the message lists the names); of the store. */
bool match_dir(struct zf_store *st, const struct zf_open_opts *o, struct match *out,
               struct zf_err *err) ZF_CHECKED;

/* Likewise for one file in st (borrowed), as if the user had given it, or NULL: all of st. */
bool match_one(struct zf_store *st, const char *file, const struct zf_open_opts *o,
               struct match *out, struct zf_err *err) ZF_CHECKED;

#endif
