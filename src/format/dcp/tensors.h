/* SPDX-License-Identifier: Apache-2.0 */
/* From what the metadata says to the tensors and files of the tree. */
#ifndef FORMAT_DCP_TENSORS_H
#define FORMAT_DCP_TENSORS_H

#include <zf/assemble/names.h>

#include "metadata.h"

/* Opens the files and gives every key its place and every chunk its box.
 * rule: how a dialect of this format calls its tensors, or NULL.
 * Errors: ZF_E_FORMAT a file is missing or too short, items overlap; of names and build. */
bool dcp_place(struct dcp *d, struct zf_store *st, const struct zf_limits *lim, struct zf_build *b,
               const struct zf_name_rule *rule, struct zf_err *err) ZF_CHECKED;

#endif
