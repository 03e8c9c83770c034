/* SPDX-License-Identifier: Apache-2.0 */
/* The path that a key had in the state dict that was saved. */
#ifndef FORMAT_DCP_PATHS_H
#define FORMAT_DCP_PATHS_H

#include <zf/assemble/names.h>

#include "metadata.h"

/* The path of key k: what planner_data says, else the key as one step.  In a numbered group the number
 * is added to the first step ("model_1"); in a group with a head that head becomes the first step of
 * paths that do not begin with one like it.  The steps live as long as d. */
bool zf_dcp_path(struct zf_dcp *d, const struct zf_dcp_key *k, struct zf_path *out,
                 struct zf_err *err) ZF_CHECKED;

#endif
