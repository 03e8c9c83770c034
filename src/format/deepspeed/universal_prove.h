/* SPDX-License-Identifier: Apache-2.0 */
/* Are the parameters of a universal checkpoint those of the files that were copied beside them? */
#ifndef FORMAT_DEEPSPEED_UNIVERSAL_PROVE_H
#define FORMAT_DEEPSPEED_UNIVERSAL_PROVE_H

#include "ranks.h"

/* Once everything is drafted, and joined where it can be: compares the masters with the weights of `module`,
 * or, of stage 3, masters and states with the vectors of rank 0 that zero/optimizer_state.pt holds.
 * Errors: ZF_E_FORMAT they differ (degraded, too); of reading. */
bool ds_universal_prove(struct ds_save *ds, const struct ds_ranks *all,
                        struct zf_err *err) ZF_CHECKED;

#endif
