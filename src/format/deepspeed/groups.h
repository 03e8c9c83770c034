/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FORMAT_DEEPSPEED_GROUPS_H
#define FORMAT_DEEPSPEED_GROUPS_H

#include "ds.h"

/* Fills ds->group from the model states' param_shapes. */
bool groups_make(struct zf_ds *ds, struct zf_err *err) ZF_CHECKED;
/* The same from wherever param_shapes is, with the ranks of every group.
 * Errors: ZF_E_FORMAT the vectors that the optimizer files hold are not those of the groups;
 * ZF_E_UNSUPPORTED no file has param_shapes. */
bool groups_match(struct zf_ds *ds, struct zf_err *err) ZF_CHECKED;

#endif
