/* SPDX-License-Identifier: Apache-2.0 */
/* What the rank-local metadata of several ranks tell of one name, each with an item of its own. */
#ifndef FORMAT_DCP_REPLICAS_H
#define FORMAT_DCP_REPLICAS_H

#include "tensors.h"

/* Is it a number or setting that all ranks of one save share: a step, an epoch, a learning rate?  Random
 * states and samplers are a rank's own. */
bool zf_dcp_is_shared(const struct zf_dcp_key *k);

/* Compares the copies of such values with the item that is shown, as far as that takes few reads.
 * Errors: ZF_E_FORMAT naming both files and both values. */
bool zf_dcp_copies_check(struct zf_dcp_placing *p, struct zf_err *err) ZF_CHECKED;

#endif
