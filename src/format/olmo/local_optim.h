/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer of a "local" save: optim/rank3.pt is the state dict of that rank's torch optimizer, in
 * which the moments of a parameter have the elements that the rank's flat parameter has of it. */
#ifndef OLMO_LOCAL_OPTIM_H
#define OLMO_LOCAL_OPTIM_H

#include "local_lay.h"

/* Drafts the states of all parameters, when there is an optim/ at all. */
bool local_optim_draft(struct olmo_local *l, struct zf_err *err) ZF_CHECKED;

#endif
