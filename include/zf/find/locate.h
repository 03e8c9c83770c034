/* SPDX-License-Identifier: Apache-2.0 */
/* From what the user pointed at to the directory that holds one save. */
#ifndef ZF_FIND_LOCATE_H
#define ZF_FIND_LOCATE_H

#include <zf/find/match.h>

/* The save inside run directory st: o->tag, else what the file `latest_name` names (NULL = "latest",
 * then "latest_universal"), else the only save there is.  tag_out gives a store of that directory,
 * tag_name_out its malloc'ed path below st.
 * Errors: ZF_E_USAGE no such tag (the sentence lists the saves); ZF_E_FORMAT the file names nothing
 * that is there; ZF_E_UNKNOWN several saves and nothing says which. */
bool zf_locate_tag(struct zf_store *st, const struct zf_open_opts *o, const char *latest_name,
                   struct zf_store **tag_out, char **tag_name_out, struct zf_err *err) ZF_CHECKED;

/* Where the checkpoint is, and how it was found. */
struct zf_place {
    struct zf_store *store; /* of the save (or of the run directory, for families that read tags) */
    struct zf_store *outer; /* where `store` was found, or NULL: it is what was pointed at */
    char *tag;              /* path from what was pointed at to `store`, or NULL */
    char *rest;             /* the part of -o tag that leads on from `store`, or NULL */
    char note[160];         /* why this save and no other; "" = nothing to tell */
    struct zf_pick pick;
};
void zf_place_free(struct zf_place *p);
static inline void zf_auto_place(struct zf_place *p)
{
    zf_place_free(p);
}

/* Looks at st, then into run directories and those below.
 * Errors: ZF_E_UNKNOWN nothing fits, or several do below: the sentence says what to point at;
 * ZF_E_UNSUPPORTED something is there that zerofs does not read; ZF_E_FORMAT what a pointer file
 * names is no save; ZF_E_USAGE no such tag. */
bool zf_locate(struct zf_store *st, const struct zf_open_opts *o, struct zf_place *out,
               struct zf_err *err) ZF_CHECKED;

#endif
