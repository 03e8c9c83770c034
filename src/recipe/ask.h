/* SPDX-License-Identifier: Apache-2.0 */
/* Questions that the expressions of a recipe ask a checkpoint. */
#ifndef RECIPE_ASK_H
#define RECIPE_ASK_H

#include "plan.h"

/* For expressions of p->line; forgets what was asked before. */
struct expr_ask ask_begin(struct plan *p);
/* The value of a variable; borrowed; NULL = none. */
const struct var *ask_var(const struct plan *p, const char *name);
/* The size that a name in a pattern has (axes_size_fn); ctx: the plan. */
bool ask_size(void *ctx, const char *name, uint64_t *out, struct zf_err *err);

#endif
