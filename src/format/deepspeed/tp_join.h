/* SPDX-License-Identifier: Apache-2.0 */
/* Model-parallel ranks joined at the root. */
#ifndef FORMAT_DEEPSPEED_TP_JOIN_H
#define FORMAT_DEEPSPEED_TP_JOIN_H

#include "ranks.h"

/* Joins the trees of all ranks, once they are drafted, as the user's rules or the save itself say; where
 * neither does, or what they say does not fit, the trees stay and a note says why.
 * Errors: ZF_E_FORMAT the user's rules do not fit, stages that share a module differ; of reading. */
bool ds_tp_join(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;

#endif
