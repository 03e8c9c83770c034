/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo's "torch_new" and OLMo-core from 1.0 on: a DCP directory model_and_optim/ and the trainer's state
 * beside it.  Without the latter, family dcp reads the same. */
#ifndef OLMO_SHARDED_H
#define OLMO_SHARDED_H

#include "save.h"

bool sharded_find(struct zf_store *st);

/* Drafts everything of the save. */
bool sharded_open(struct olmo_save *s, struct zf_err *err) ZF_CHECKED;

#endif
