/* SPDX-License-Identifier: Apache-2.0 */
/* Non-persistent local checkpoints: a file a rank on that rank's own disk, in classes of
 * nvidia-resiliency-ext.  They are known, so that nobody takes one for a torch.save file of weights, and
 * not read: what a rank's file holds of a tensor is known to the running job alone. */
#ifndef FORMAT_MEGATRON_LOCAL_SAVE_H
#define FORMAT_MEGATRON_LOCAL_SAVE_H

#include <zf/source/store.h>

/* The path of the first such file in st's root, or in a directory of one rank there; false: none. */
bool mg_local_find(struct zf_store *st, char path[160]);

/* Fills *err with the refusal.  Returns false. */
bool mg_local_refuse(const char *path, struct zf_err *err);

#endif
