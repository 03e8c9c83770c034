/* SPDX-License-Identifier: Apache-2.0 */
/* planner_data: the path that each key had in the saved state dict. */
#ifndef DCP_PATHS_H
#define DCP_PATHS_H

#include "metadata.h"

/* Reads one entry of the dict into its key's path, after state_dict_metadata; the entry may be freed afterwards.
 * Errors: ZF_E_FORMAT a path does not fit its key. */
bool dcp_take_path(struct dcp_reading *r, const struct zf_pv *fqn, const struct zf_pv *tuple,
                   struct zf_err *err) ZF_CHECKED;

/* Room for the steps of one path. */
struct dcp_steps {
    zf_vec(struct zf_step) step;
    struct zf_out head; /* a numbered first step */
};
void dcp_steps_fini(struct dcp_steps *room);

/* The path of key k: from planner_data, else the key as one step.  In a numbered group the number is
 * appended to the first step ("model_1"); in a group with a head that head becomes the first step of
 * paths that do not start with one like it.  The steps are in *room and in d, until room is used again.
 * Errors: ZF_E_NOMEM. */
bool dcp_path(const struct zf_dcp *d, const struct dcp_key *k, struct dcp_steps *room,
              struct zf_path *out, struct zf_err *err) ZF_CHECKED;

#endif
