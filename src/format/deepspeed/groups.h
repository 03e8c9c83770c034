/* SPDX-License-Identifier: Apache-2.0 */
/* The parameter groups of a rank. */
#ifndef FORMAT_DEEPSPEED_GROUPS_H
#define FORMAT_DEEPSPEED_GROUPS_H

#include "rank.h"

/* Makes mp->group out of what was read: the rank's files, and those of its experts.
 * Errors: ZF_E_FORMAT the files do not name what they hold; those of ds_experts_split. */
bool ds_groups_make(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

#endif
