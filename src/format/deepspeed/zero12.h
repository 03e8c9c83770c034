/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO stages 1 and 2, and BF16_Optimizer. */
#ifndef FORMAT_DEEPSPEED_ZERO12_H
#define FORMAT_DEEPSPEED_ZERO12_H

#include "vectors.h"

/* Says where each parameter of the group is.  Errors: ZF_E_FORMAT the lengths do not add up. */
bool zero12_lay(struct ds_save *ds, const struct ds_group *g, struct zf_flat_vector *out,
                struct zf_err *err) ZF_CHECKED;
/* Drafts the trained parameters and their optimizer states. */
bool ds_zero12_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

#endif
