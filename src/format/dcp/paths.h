/* SPDX-License-Identifier: Apache-2.0 */
/* Where a key of a DCP save stands in the state dict that was saved. */
#ifndef FORMAT_DCP_PATHS_H
#define FORMAT_DCP_PATHS_H

#include <zf/assemble/names.h>

#include "metadata.h"

/* The path of key k: what planner_data says, else the key as one step.  Keys of a numbered group
 * get its number behind their first step ("model_1"), keys of a group with a head that head in
 * front when they have none.  The steps live as long as d. */
bool zf_dcp_path(struct zf_dcp *d, const struct zf_dcp_key *k, struct zf_path *out,
                 struct zf_err *err) ZF_CHECKED;

#endif
