/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts stored/, the 16-bit weights. */
#ifndef FORMAT_DEEPSPEED_STORED_H
#define FORMAT_DEEPSPEED_STORED_H

#include "rank.h"

bool ds_stored_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

#endif
