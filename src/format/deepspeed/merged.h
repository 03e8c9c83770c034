/* SPDX-License-Identifier: Apache-2.0 */
/* Saves that name the parameters of all groups in one mapping (before 0.5.4), and which of them are in
 * which vector, in what order. */
#ifndef FORMAT_DEEPSPEED_MERGED_H
#define FORMAT_DEEPSPEED_MERGED_H

#include "rank.h"

/* Proves the groups and their order, and puts mp->group in it.
 * Errors: ZF_E_FORMAT not proven; a master does not round to its weight; of reading. */
bool ds_merged_settle(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

#endif
