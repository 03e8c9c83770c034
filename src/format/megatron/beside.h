/* SPDX-License-Identifier: Apache-2.0 */
/* What trainers of Megatron put beside the tensors of a save. */
#ifndef FORMAT_MEGATRON_BESIDE_H
#define FORMAT_MEGATRON_BESIDE_H

#include <zf/assemble/open_opts.h>

#include "save.h"

/* Adds what a trainer puts beside the tensors of a save in torch.save files: train_state.pt of
 * Megatron-Bridge, the state of data loaders.  One that cannot be read is a note.  Errors: of the build. */
bool mg_beside(struct mg_save *s, const struct zf_open_opts *o, struct zf_err *err) ZF_CHECKED;

#endif
