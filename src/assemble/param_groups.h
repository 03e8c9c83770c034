/* SPDX-License-Identifier: Apache-2.0 */
/* The param_groups of the optimizers in a torch.save file: which id is which parameter, and the
 * step that some optimizers keep per group.  Source: torch/optim/optimizer.py state_dict (1.13
 * … 2.13). */
#ifndef ASSEMBLE_PARAM_GROUPS_H
#define ASSEMBLE_PARAM_GROUPS_H

#include <zf/assemble/torch_place.h>

/* Tells names what the groups' `param_names` say.  Errors: ZF_E_NOMEM. */
bool zf_groups_see(struct zf_names *names, const struct zf_place_file *f,
                   struct zf_err *err) ZF_CHECKED;

/* A group's integer or float `step` becomes optim/step/<name> for each of its parameters whose own
 * state has none.  Errors: of the build. */
bool zf_groups_place(struct zf_build *b, struct zf_names *names, const struct zf_place_file *f,
                     struct zf_err *err) ZF_CHECKED;

#endif
