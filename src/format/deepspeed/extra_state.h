/* SPDX-License-Identifier: Apache-2.0 */
/* Adds what is no weight from the first model-states and optimizer-states file. */
#ifndef FORMAT_DEEPSPEED_EXTRA_STATE_H
#define FORMAT_DEEPSPEED_EXTRA_STATE_H

#include "save.h"

bool ds_state_model(struct ds_save *ds, struct zf_torch *t, const char *path,
                    struct zf_err *err) ZF_CHECKED;
bool ds_state_optim(struct ds_save *ds, struct zf_torch *t, const char *path,
                    struct zf_err *err) ZF_CHECKED;

#endif
