/* SPDX-License-Identifier: Apache-2.0 */
/* Queries about a checkpoint, made by the expressions of a recipe. */
#ifndef RECIPE_ASK_H
#define RECIPE_ASK_H

#include "plan.h"

/* Starts the expressions of p->line; clears p->from. */
struct expr_ask ask_begin(struct plan *p);
/* The value of a variable; borrowed; NULL = no such variable. */
const struct var *ask_var(const struct plan *p, const char *name);
/* The size of a name in a pattern (axes_size_fn); ctx: the plan. */
bool ask_size(void *ctx, const char *name, uint64_t *out, struct zf_err *err);

#endif
