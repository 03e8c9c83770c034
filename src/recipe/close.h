/* SPDX-License-Identifier: Apache-2.0 */
/* The proof of a plan once all its lines are worked out. */
#ifndef RECIPE_CLOSE_H
#define RECIPE_CLOSE_H

#include "plan.h"

/* No two targets of a name; every tensor of the checkpoint used once, or left out by name.  What is wrong becomes a
 * problem.  Errors: ZF_E_NOMEM. */
bool close_plan(struct plan *p, struct zf_err *err) ZF_CHECKED;

#endif
