/* SPDX-License-Identifier: Apache-2.0 */
/* The directories of weights and optimizer, relative to the save, of trainers that save the two separately. */
#ifndef ZF_ASSEMBLE_SAVE_DIRS_H
#define ZF_ASSEMBLE_SAVE_DIRS_H

#include <zf/source/store.h>

/* End with NULL.  Source: NeMo AutoModel, components/checkpoint/checkpointing.py (0.1 … 0.7), save_model,
 * save_optimizer; NeMo-RL, nemo_rl/utils/checkpoint.py (0.3 …), policy/; transformers 5, modeling_utils.py,
 * distributed_checkpoint; ColossalAI's examples, "modeling". */
extern const char *const zf_weights_dir[], *const zf_optimizer_dir[];

/* True if such a directory exists according to the listings of all directories above it, so that a store without
 * listings is not asked for the files of an unknown directory. */
bool zf_save_dir_is(struct zf_store *st, const char *dir);

#endif
