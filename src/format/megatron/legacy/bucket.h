/* SPDX-License-Identifier: Apache-2.0 */
/* distrib_optim.pt: the flat buffers of the distributed optimizer of one rank. */
#ifndef FORMAT_MEGATRON_LEGACY_BUCKET_H
#define FORMAT_MEGATRON_LEGACY_BUCKET_H

#include "save.h"

/* Reads the flat vectors of rank[i], whose model has been read.  Errors: ZF_E_FORMAT a damaged
 * tensor; of the arena. */
bool legacy_bucket_read(struct legacy_save *ls, uint32_t i, struct zf_torch *t,
                        struct zf_err *err) ZF_CHECKED;

#endif
