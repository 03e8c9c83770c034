/* SPDX-License-Identifier: Apache-2.0 */
/* Which entries of one file are one tensor. */
#ifndef FORMAT_DEEPSPEED_TIES_H
#define FORMAT_DEEPSPEED_TIES_H

#include "rank.h"

/* tie[i], [n]: the entry of one file that entry i is a second name of, or i.  The trained
 * parameters are drafted.  NULL: no memory. */
const uint32_t *ds_ties_find(struct ds_rank *mp, const struct ds_entry *entry, uint32_t n,
                             struct zf_err *err) ZF_CHECKED;
/* True if shared_params lists it as a second name. */
bool ds_ties_listed(const struct ds_model *m, struct ds_name name);

#endif
