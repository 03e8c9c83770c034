/* SPDX-License-Identifier: Apache-2.0 */
/* The param_groups of the optimizers in a torch.save file: the parameter of each id, and the step
 * that some optimizers keep per group.  Source: torch/optim/optimizer.py state_dict (1.13 … 2.13). */
#ifndef ASSEMBLE_PARAM_GROUPS_H
#define ASSEMBLE_PARAM_GROUPS_H

#include <zf/assemble/names.h>
#include <zf/codec/torch.h>
#include <zf/model/build.h>

/* Is it the state dict of an optimizer (state and param_groups)? */
bool groups_is_optimizer(const struct zf_pv *v);

/* Adds the groups' `param_names` to names.  head: first step of every path of the file, or NULL.
 * Errors: ZF_E_NOMEM. */
bool groups_add_names(struct zf_names *names, struct zf_torch *t, const char *head,
                      struct zf_err *err) ZF_CHECKED;

/* A group's integer or float `step` becomes optim/step/<name> for each of its parameters whose own
 * state has none.  Errors: of the build. */
bool groups_place(struct zf_build *b, struct zf_names *names, struct zf_torch *t, const char *head,
                  struct zf_err *err) ZF_CHECKED;

#endif
