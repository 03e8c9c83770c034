/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the checksums that a trainer stored with a save, before an export writes anything. */
#ifndef ZF_CMD_EXPORT_H
#define ZF_CMD_EXPORT_H

#include <zf/export.h>

#include "options.h"

/* If the checkpoint has checksums, checks each shard all of whose tensors are in the plan.  tell: prints on stderr
 * how many were checked and how many not.  Errors: ZF_E_FORMAT a checksum differs (a warning with -o degraded); those
 * of reading; ZF_E_NOMEM. */
bool export_verify(struct zf_tree *tree, const struct zf_export_plan *plan, const struct opts *o,
                   bool tell, struct zf_err *err) ZF_CHECKED;

#endif
