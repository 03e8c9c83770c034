/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO stage 3. */
#ifndef FORMAT_DEEPSPEED_ZERO3_H
#define FORMAT_DEEPSPEED_ZERO3_H

#include "rank.h"

/* Drafts the trained parameters and their optimizer states. */
bool ds_zero3_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Joins the slices of frozen parameters. */
bool ds_zero3_frozen(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Are the weights of m, which has every trained parameter, what the masters round to?
 * bad->p: the first that is not, or NULL. */
bool ds_zero3_rounds(struct ds_rank *mp, const struct ds_model *m, struct ds_name *bad,
                     struct zf_err *err) ZF_CHECKED;

#endif
