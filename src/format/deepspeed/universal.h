/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts the trained parameters and their states from the files below zero/ of a universal
 * checkpoint. */
#ifndef FORMAT_DEEPSPEED_UNIVERSAL_H
#define FORMAT_DEEPSPEED_UNIVERSAL_H

#include "rank.h"

/* mp: all ranks as one.  Errors: ZF_E_FORMAT a parameter is missing, or of another save than the others. */
bool ds_universal_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

#endif
