/* SPDX-License-Identifier: Apache-2.0 */
/* What the small bytes items say, told as JSON. */
#ifndef FORMAT_DCP_BYTES_ITEMS_H
#define FORMAT_DCP_BYTES_ITEMS_H

#include "tensors.h"

/* Adds state/checkpoint.json: the value of every bytes item under its key, as far as that takes few
 * reads; the others stay in extra/ alone.  An item that cannot be read is left out here: it says
 * why where it is read.  Errors: of the build. */
bool zf_dcp_state(struct zf_dcp_placing *p, struct zf_err *err) ZF_CHECKED;

#endif
