/* SPDX-License-Identifier: Apache-2.0 */
#include "beside.h"

#include <string.h>

#include <zf/assemble/companions.h>
#include <zf/assemble/torch_files.h>

/* Source: Megatron-Bridge training/utils/checkpoint_utils.py, TRAIN_STATE_FILE (0.1 … 0.6);
 * megatron/training/checkpointing.py, save_dataloader_state (core 0.9 … 0.19), which are called as other
 * trainers' companions.  common.pt is the save's own. */
static bool beside_is(const char *name)
{
    return strcmp(name, "train_state.pt") == 0 ||
           (strcmp(name, "common.pt") != 0 && zf_torch_set_named(name) &&
            zf_torch_set_role(name) != ZF_ROLE_WEIGHTS);
}

bool mg_beside(struct mg_save *s, const struct zf_open_opts *o, struct zf_err *err)
{
    return zf_companions_add_those(s->st, o, s->b, beside_is, err);
}
