/* SPDX-License-Identifier: Apache-2.0 */
/* Where trainers that save weights and optimizer apart put them, seen from the directory of the save. */
#ifndef ZF_ASSEMBLE_SAVE_DIRS_H
#define ZF_ASSEMBLE_SAVE_DIRS_H

#include <zf/source/store.h>

/* End with NULL.  Source: NeMo AutoModel, components/checkpoint/checkpointing.py (0.1 … 0.7), save_model,
 * save_optimizer; NeMo-RL, nemo_rl/utils/checkpoint.py (0.3 …), policy/; transformers 5, modeling_utils.py,
 * distributed_checkpoint; ColossalAI's examples, "modeling". */
extern const char *const zf_weights_dir[], *const zf_optimizer_dir[];

/* Is there such a directory, as the listings say of each directory above it?  A place that does not list is not asked
 * for the names of a directory that nobody has heard of. */
bool zf_save_dir_is(struct zf_store *st, const char *dir);

#endif
