/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a recipe, one after the other. */
#ifndef RECIPE_RUN_H
#define RECIPE_RUN_H

#include "plan.h"

/* Works the recipe out; p->fits and p->problem say how far it got.  brief: without its rules, which do not decide whether
 * it fits.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool run_recipe(struct plan *p, const struct recipe *r, const struct given *given,
                struct said *files, bool brief, struct zf_err *err) ZF_CHECKED;

#endif
