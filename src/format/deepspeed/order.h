/* SPDX-License-Identifier: Apache-2.0 */
/* In which order the parameters of a group are in its vector. */
#ifndef FORMAT_DEEPSPEED_ORDER_H
#define FORMAT_DEEPSPEED_ORDER_H

#include "rank.h"

/* Proves the order of the parameters of all groups, and puts mp->group in it (stages 1 and 2).
 * Errors: ZF_E_FORMAT a master does not round to its weight; not proven. */
bool ds_order_settle(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

#endif
