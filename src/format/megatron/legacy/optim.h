/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer of one rank's file. */
#ifndef FORMAT_MEGATRON_LEGACY_OPTIM_H
#define FORMAT_MEGATRON_LEGACY_OPTIM_H

#include "save.h"

/* Reads `optimizer` of the rank, whose parts have been read, and gives masters and states to the
 * parameters they are proved to be of; the others become strays.
 * Errors: ZF_E_FORMAT a damaged tensor; of the arena. */
bool legacy_optim_read(struct legacy_save *ls, struct legacy_rank *r, struct zf_torch *t,
                       struct zf_err *err) ZF_CHECKED;

#endif
