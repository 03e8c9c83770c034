/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged tensors: they can be left out, and are listed then. */
#ifndef VIEW_LOST_H
#define VIEW_LOST_H

#include "bulk.h"

/* *out = the set without its pieces of other tensors and, when `damaged`, without what is damaged, from a;
 * the set itself when it has none. */
bool lost_leave_out(const struct zf_set *set, bool damaged, const struct zf_set **out,
                    struct zf_arena *a, struct zf_err *err) ZF_CHECKED;

/* LOST.json: the damaged tensors of a set; its shard is the checkpoint. */
extern const struct bulk_kind bulk_lost;

#endif
