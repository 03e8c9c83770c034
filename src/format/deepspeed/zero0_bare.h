/* SPDX-License-Identifier: Apache-2.0 */
/* The states of an optimizer that keeps no masters (fp32 training without ZeRO): the state dict of torch. */
#ifndef FORMAT_DEEPSPEED_ZERO0_BARE_H
#define FORMAT_DEEPSPEED_ZERO0_BARE_H

#include "masters.h"

/* Drafts them under the parameters' names where the optimizer recorded these, or where each state has
 * the shape of one weight only; else leaves them to ds_numbered_draft.  q: initialised. */
bool ds_zero0_bare(struct ds_guess *q, struct zf_torch *t, const struct zf_pv *optim,
                   struct zf_err *err) ZF_CHECKED;

#endif
