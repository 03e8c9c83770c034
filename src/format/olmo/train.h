/* SPDX-License-Identifier: Apache-2.0 */
/* Files beside the tensors of a save: the trainer's state of each rank (train/rank3.pt), and the number of
 * ranks (metadata.yaml). */
#ifndef OLMO_TRAIN_H
#define OLMO_TRAIN_H

#include <zf/assemble/numbered.h>

#include "save.h"

/* The "world_size" of metadata.yaml; 0 when there is no such file.
 * Source: olmo/checkpoint.py, _LocalShardedCheckpointMetadata.  Errors: ZF_E_FORMAT. */
bool train_world(struct olmo_save *s, uint32_t *out, struct zf_err *err) ZF_CHECKED;

/* Are there files of no more ranks than metadata.yaml says?  Errors: ZF_E_FORMAT. */
bool train_check_world(uint32_t world, const struct zf_ranks *r, struct zf_err *err) ZF_CHECKED;

/* Shows the state of the first rank: state/train.json, and its random states under extra/.  What all
 * ranks repeat must agree.  world: ranks that have files of tensors, or 0.
 * Errors: ZF_E_FORMAT files of two saves. */
bool train_add(struct olmo_save *s, uint32_t world, struct zf_err *err) ZF_CHECKED;

#endif
