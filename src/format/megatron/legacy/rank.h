/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the file of one rank. */
#ifndef FORMAT_MEGATRON_LEGACY_RANK_H
#define FORMAT_MEGATRON_LEGACY_RANK_H

#include "save.h"

/* Reads the model and the optimizer of rank[i] out of its open file t; what is neither is drafted.
 * Errors: ZF_E_FORMAT; of the build. */
bool legacy_rank_read(struct legacy_save *ls, uint32_t i, struct zf_torch *t,
                      struct zf_err *err) ZF_CHECKED;

#endif
