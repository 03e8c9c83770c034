/* SPDX-License-Identifier: Apache-2.0 */
/* From safetensors headers to tensors: whole ones, and those cut into boxes over several files. */
#ifndef FORMAT_SAFETENSORS_JOIN_H
#define FORMAT_SAFETENSORS_JOIN_H

#include <zf/assemble/hf_index.h>
#include <zf/assemble/names.h>
#include <zf/assemble/st_files.h>

/* The first pass of the naming rules over the tensors of the files.  Errors: ZF_E_NOMEM. */
bool st_join_add_names(const struct zf_st_files *f, struct zf_names *names,
                       struct zf_err *err) ZF_CHECKED;

/* Further knowledge of the tensors.  All may be NULL. */
struct st_join_how {
    const struct zf_st_index *index;  /* decides between files that hold the same name */
    const struct zf_st_index *number; /* names every tensor, and the number of its files */
    const char *tied; /* the one of `number` that may be in no file, as it is another's copy */
    const char *set;  /* where they go; NULL = by the naming rules */
    struct zf_names *names; /* asked, st_join_add_names came before; NULL = these tensors' own */
};

/* Gives every tensor of the files to b.  Each of the index's, and of `number`'s but `tied`, must be somewhere.  A tensor cut
 * into boxes has the shape of the moments that an optimizer placed before it keeps of it (optim/exp_avg …), where
 * there are some; else that no rank is missing is not proved, and noted.
 * Errors: ZF_E_FORMAT a tensor of the index that no file holds, one name in two files without index or boxes, boxes
 * that do not make a tensor, or not all of what the optimizer trained; a file that is not the one `number` says. */
bool st_join(const struct zf_st_files *f, const struct st_join_how *how, struct zf_build *b,
             struct zf_err *err) ZF_CHECKED;

/* Is there a name that two files hold, without boxes that make them parts of one tensor? */
bool st_join_collides(const struct zf_st_files *f, bool *out, struct zf_err *err) ZF_CHECKED;

#endif
