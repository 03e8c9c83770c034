/* SPDX-License-Identifier: Apache-2.0 */
/* What was read of the ranks, as tensors of the checkpoint. */
#ifndef FORMAT_MEGATRON_LEGACY_DRAFT_H
#define FORMAT_MEGATRON_LEGACY_DRAFT_H

#include "join.h"
#include "save.h"

/* Drafts mp_rank_…/ of every rank: its tensors, the flat vectors below bucket/, and, when
 * asked, the values of its optimizer below optim/, which are shown nowhere else then.
 * joined: the root has the model, and these are the record of what is on disk, as raw bytes only. */
bool legacy_draft_ranks(struct legacy_save *ls, bool optim, bool joined,
                        struct zf_err *err) ZF_CHECKED;

/* Drafts the tensors of the model in the root, after j; with masters, these, the weights they shadow
 * in stored/ and the moments below optim/. */
bool legacy_draft_model(struct legacy_save *ls, const struct legacy_join *j, bool masters,
                        struct zf_err *err) ZF_CHECKED;

#endif
