/* SPDX-License-Identifier: Apache-2.0 */
/* No two vectors of an optimizer are one: what refers to the record of another would be served under the
 * right name with the wrong bytes. */
#ifndef FORMAT_DEEPSPEED_APART_H
#define FORMAT_DEEPSPEED_APART_H

#include "optim_states.h"

/* Checks that the masters and states of a file have bytes of their own.
 * Errors: ZF_E_FORMAT naming two that do not. */
bool ds_apart_check(const struct ds_optim *r, struct zf_err *err) ZF_CHECKED;

#endif
