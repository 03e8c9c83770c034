/* SPDX-License-Identifier: Apache-2.0 */
/* Values that every rank saved for itself (rank-local metadata), each with an item of its own. */
#ifndef DCP_REPLICAS_H
#define DCP_REPLICAS_H

#include "placing.h"

/* Compares the copies that storage_data.c recorded with the item that is shown, as far as that takes few
 * reads.
 * Errors: ZF_E_FORMAT naming both files and both values. */
bool dcp_copies_check(struct dcp_placing *p, struct zf_err *err) ZF_CHECKED;

#endif
