/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that Megatron stores in parts, under keys of their own. */
#ifndef FORMAT_MEGATRON_PARTS_H
#define FORMAT_MEGATRON_PARTS_H

#include "save.h"

/* Adds a joined parameter for each that is in the list in parts only, all of them of one type and equal
 * but in their first dimension, and says of its parts that they are apart.
 * Errors: ZF_E_LIMIT tensors; ZF_E_NOMEM. */
bool mg_parts_join(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

#endif
