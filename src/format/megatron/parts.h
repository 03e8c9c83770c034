/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that Megatron stores in parts, under keys of their own. */
#ifndef FORMAT_MEGATRON_PARTS_H
#define FORMAT_MEGATRON_PARTS_H

#include "save.h"

/* Adds a joined parameter for each that is in the list in parts only, all of them of one type and equal
 * but in their first dimension, and says of its parts that they are apart.
 * Errors: ZF_E_LIMIT tensors; ZF_E_NOMEM. */
bool mg_parts_join(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* What a part is of: the length of the whole name, and which of n parts.  False: it is no part by its
 * name.  *whole is followed by the ending that tells the part. */
struct mg_part {
    struct mg_text whole;
    uint32_t part, n;
};
bool mg_part_of(struct mg_text name, struct mg_part *out);

#endif
