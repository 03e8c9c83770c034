/* SPDX-License-Identifier: Apache-2.0 */
/* param_slice_mappings as the only list of parameters: what mixtures of experts wrote before 0.19.3
 * has no param_shapes. */
#ifndef FORMAT_DEEPSPEED_MAPPINGS_H
#define FORMAT_DEEPSPEED_MAPPINGS_H

#include "rank.h"

/* Joins the slices of the ranks of each group's first vector: names and lengths, one shape [length]
 * each.  NULL = err is set.  Errors: ZF_E_FORMAT slices leave a hole or overlap; ranks differ. */
struct ds_shapes *ds_mappings_join(struct ds_rank *mp, uint32_t n_groups, struct zf_err *err);
/* Gives every parameter the shape of its 16-bit weight.  Errors: ZF_E_FORMAT there is none of its
 * length. */
bool ds_mappings_shape(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

#endif
