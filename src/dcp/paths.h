/* SPDX-License-Identifier: Apache-2.0 */
/* planner_data: the path that each key had in the state dict that was saved. */
#ifndef DCP_PATHS_H
#define DCP_PATHS_H

#include "metadata.h"

/* Reads the dict (NULL: there is none) into the keys' paths, after state_dict_metadata.
 * Errors: ZF_E_FORMAT a path is not that of its key. */
bool dcp_take_paths(struct dcp_reading *r, const struct zf_pv *dict, struct zf_err *err) ZF_CHECKED;

/* The path of key k: what planner_data says, else the key as one step.  In a numbered group the number
 * is added to the first step ("model_1"); in a group with a head that head becomes the first step of
 * paths that do not begin with one like it.  The steps live as long as d. */
bool dcp_path(struct zf_dcp *d, const struct dcp_key *k, struct zf_path *out,
              struct zf_err *err) ZF_CHECKED;

#endif
