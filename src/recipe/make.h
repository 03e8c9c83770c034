/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan that is proved to the tensors and files of hf/. */
#ifndef RECIPE_MAKE_H
#define RECIPE_MAKE_H

#include "plan.h"

/* Sets c->hf, and adds hf/config.json (unless there is another one), hf/recipe.json and a note.
 * Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool make_model(struct zf_checkpoint *c, const struct plan *p, struct zf_err *err) ZF_CHECKED;
/* Adds a note.  Errors: ZF_E_NOMEM. */
bool make_note(struct zf_checkpoint *c, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))) ZF_CHECKED;

#endif
