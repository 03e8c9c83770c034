/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts the trained parameters and their states of a save without ZeRO, as far as their names can
 * be proved. */
#ifndef FORMAT_DEEPSPEED_ZERO0_H
#define FORMAT_DEEPSPEED_ZERO0_H

#include "rank.h"

bool ds_zero0_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

#endif
