/* SPDX-License-Identifier: Apache-2.0 */
/* The parameter groups of a rank. */
#ifndef FORMAT_DEEPSPEED_GROUPS_H
#define FORMAT_DEEPSPEED_GROUPS_H

#include "rank.h"

/* Makes mp->group out of what was read: the rank's files, and those of its experts.
 * Errors: ZF_E_FORMAT the files do not name what they hold; those of ds_experts_split. */
bool ds_groups_make(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* The elements that the ranks whose files are there have of group g of the files. */
bool ds_groups_count(const struct ds_rank *mp, uint32_t g, uint64_t *sum,
                     struct zf_err *err) ZF_CHECKED;
/* The group `like` with the parameters which[0 .. n) of mp->merged in its vector, in that order. */
bool ds_groups_pick(struct ds_rank *mp, const struct ds_group *like, const uint32_t *which,
                    uint32_t n, struct ds_group *out, struct zf_err *err) ZF_CHECKED;

#endif
