/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and drops, for every value of their indices. */
#ifndef RECIPE_EXPAND_H
#define RECIPE_EXPAND_H

#include "plan.h"

/* Adds the targets of p->line, a rule, or the parts that p->line drops; what is wrong becomes a problem.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT tensors. */
bool expand_line(struct plan *p, struct zf_err *err) ZF_CHECKED;

#endif
