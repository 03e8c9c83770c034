/* SPDX-License-Identifier: Apache-2.0 */
/* Makes tensors from safetensors headers: whole ones, and ones that are split into boxes in several files. */
#ifndef FORMAT_SAFETENSORS_JOIN_H
#define FORMAT_SAFETENSORS_JOIN_H

#include <zf/assemble/hf_index.h>
#include <zf/assemble/names.h>
#include <zf/assemble/st_files.h>

/* Does the first pass of the naming rules over all tensors of the files.  Errors: ZF_E_NOMEM. */
bool st_join_add_names(const struct zf_st_files *f, struct zf_names *names,
                       struct zf_err *err) ZF_CHECKED;

/* What else is known about the tensors.  All may be NULL. */
struct st_join_how {
    const struct zf_st_index *index;  /* decides between files that hold the same name */
    const struct zf_st_index *number; /* names every tensor, and the number of its files */
    const char *tied; /* the name in `number` that may be in no file, as it is tied to another */
    const char *set;  /* the set of all tensors; NULL = chosen by the naming rules */
    struct zf_names *names; /* rules to use, after st_join_add_names; NULL = their own */
};

/* Adds every tensor of the files to b.  All names of the index, and of `number` except `tied`, must be in a file.
 * A tensor that is split into boxes gets the shape of its optimizer states (optim/exp_avg …), if the optimizer was
 * added before; without these it is noted that a missing rank would not be detected. Errors: ZF_E_FORMAT a tensor
 * of the index is in no file, a name is in two files without index or boxes, boxes do not make up a tensor, or only
 * a part of the shape that the optimizer has; a tensor is in another file than `number` says. */
bool st_join(const struct zf_st_files *f, const struct st_join_how *how, struct zf_build *b,
             struct zf_err *err) ZF_CHECKED;

/* *out: two files have a tensor of the same name, not as boxes of one tensor. */
bool st_join_collides(const struct zf_st_files *f, bool *out, struct zf_err *err) ZF_CHECKED;

#endif
