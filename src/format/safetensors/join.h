/* SPDX-License-Identifier: Apache-2.0 */
/* From safetensors headers to tensors: whole ones, and those cut into boxes over several files. */
#ifndef FORMAT_SAFETENSORS_JOIN_H
#define FORMAT_SAFETENSORS_JOIN_H

#include <zf/assemble/hf_index.h>
#include <zf/assemble/st_files.h>

/* Gives every tensor of the files to b.  index (or NULL) decides between files that hold the same
 * name, and each of its tensors must be somewhere.  set: where they go, or NULL: by the naming
 * rules. Errors: ZF_E_FORMAT a tensor of the index that no file holds, one name in two files
 * without index or boxes, boxes that do not make a tensor. */
bool st_join(const struct zf_st_files *f, const struct zf_st_index *index, const char *set,
             struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* Is there a name that two files hold, without boxes that make them parts of one tensor? */
bool st_join_collides(const struct zf_st_files *f, bool *out, struct zf_err *err) ZF_CHECKED;

#endif
