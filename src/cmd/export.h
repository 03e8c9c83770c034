/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that a trainer left beside a save, compared before an export writes anything. */
#ifndef ZF_CMD_EXPORT_H
#define ZF_CMD_EXPORT_H

#include <zf/export.h>

#include "options.h"

/* Compares each shard of which the plan has all tensors with its sum, if the checkpoint has sums.  tell: says on stderr
 * how many were compared and how many not.  Errors: ZF_E_FORMAT a sum is another (a warning with -o degraded); of
 * reading; ZF_E_NOMEM. */
bool export_verify(struct zf_tree *tree, const struct zf_export_plan *plan, const struct opts *o,
                   bool tell, struct zf_err *err) ZF_CHECKED;

#endif
