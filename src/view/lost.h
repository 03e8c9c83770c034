/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged tensors can be left out of the tree; then they are listed. */
#ifndef VIEW_LOST_H
#define VIEW_LOST_H

#include "bulk.h"

/* *out = the set without pieces of other tensors and, if `damaged`, without damaged tensors; memory from a.
 * It is the set itself if it has none of these. */
bool lost_leave_out(const struct zf_set *set, bool damaged, const struct zf_set **out,
                    struct zf_arena *a, struct zf_err *err) ZF_CHECKED;

/* LOST.json: the damaged tensors of a set; its shard is the checkpoint. */
extern const struct bulk_kind bulk_lost;

#endif
