/* SPDX-License-Identifier: Apache-2.0 */
/* Other files of a save: each rank's trainer state (train/rank3.pt), and the number of ranks
 * (metadata.yaml). */
#ifndef OLMO_TRAIN_H
#define OLMO_TRAIN_H

#include <zf/assemble/numbered.h>

#include "save.h"

/* Reads "world_size" from metadata.yaml; 0 if there is no such file.
 * Source: olmo/checkpoint.py, _LocalShardedCheckpointMetadata.  Errors: ZF_E_FORMAT. */
bool train_world(struct olmo_save *s, uint32_t *out, struct zf_err *err) ZF_CHECKED;

/* Checks that exactly the ranks of metadata.yaml (world; 0: unknown) have files.  Errors: ZF_E_FORMAT. */
bool train_check_world(uint32_t world, const struct zf_ranks *r, struct zf_err *err) ZF_CHECKED;

/* Shows the state of the first rank: state/train.json, and its RNG states under extra/.  Values that are
 * the same on all ranks must agree.  world: number of ranks with files of tensors, or 0.
 * Errors: ZF_E_FORMAT files of two saves. */
bool train_add(struct olmo_save *s, uint32_t world, struct zf_err *err) ZF_CHECKED;

#endif
