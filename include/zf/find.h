/* SPDX-License-Identifier: Apache-2.0 */
/* From a place in a file system to a sealed checkpoint. */
#ifndef ZF_FIND_H
#define ZF_FIND_H

#include <zf/format.h>

/* Row i, or NULL past the end (for lists). */
const struct zf_format *zf_format_row(size_t i);

/* Finds the checkpoint at, in, or one level below st (run directories, tags), chooses the format,
 * opens and seals it.  Takes its own reference on st.
 * Errors: ZF_E_UNKNOWN nothing fits (the sentence says what to point at, if something near does);
 * ZF_E_FORMAT; ZF_E_USAGE unknown format or tag. */
struct zf_checkpoint *zf_open(struct zf_store *st, const struct zf_open_opts *o,
                              struct zf_err *err) ZF_CHECKED;

/* The saves of a run directory, in order of age, newest last, and which one `latest` names (n =
 * none). names: malloc'ed array of malloc'ed strings, freed with zf_tags_free. */
struct zf_tags {
    char **name;
    size_t n, latest;
    size_t weak; /* unfinished ones that were left out */
};
bool zf_tags_list(struct zf_store *st, const struct zf_limits *lim, struct zf_tags *out,
                  struct zf_err *err) ZF_CHECKED;
void zf_tags_free(struct zf_tags *t);

#endif
