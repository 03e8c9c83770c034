/* SPDX-License-Identifier: Apache-2.0 */
/* Which family fits a directory: the rule of table.def. */
#ifndef ZF_FIND_MATCH_H
#define ZF_FIND_MATCH_H

#include <zf/find.h>

struct zf_pick {
    const struct zf_format *format; /* NULL: none fits */
    struct zf_probe probe;
};

/* Asks every family about st (or only o->format).  A store focused on a plain file is shown only to
 * families that read one file; one on a manifest (.metadata, latest …) stands for its directory.
 * Errors: ZF_E_FORMAT two families fit and neither refines the other; ZF_E_USAGE o->format is
 * unknown (the sentence lists the names); of the store. */
bool zf_pick(struct zf_store *st, const struct zf_open_opts *o, struct zf_pick *out,
             struct zf_err *err) ZF_CHECKED;

#endif
