/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the optimizer's step counts, parameter by parameter, with each other and with the trainer's:
 * often the only evidence in a save of files of another step. */
#ifndef OLMO_STEPS_H
#define OLMO_STEPS_H

#include "save.h"

/* Reads the steps of up to 16 parameters, spread evenly, and notes where two differ, or differ from
 * the trainer's "global_step" by more than one.  Neither need be wrong (a frozen or new parameter,
 * an optimizer that skips steps or began anew), so that nothing is refused.  Call it when all is
 * drafted.  Errors: of the note; ZF_E_NOMEM. */
bool steps_note(struct olmo_save *s, struct zf_err *err) ZF_CHECKED;

#endif
