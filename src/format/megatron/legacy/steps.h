/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of opening a legacy save, in legacy.c's order.  Each step has a file of its own. */
#ifndef FORMAT_MEGATRON_LEGACY_STEPS_H
#define FORMAT_MEGATRON_LEGACY_STEPS_H

#include "join.h"
#include "save.h"

/* ---- of each rank ---- */

/* Reads the model and the optimizer of rank[i] out of its open file t; what is neither is drafted.
 * Errors: ZF_E_FORMAT; of the build. */
bool legacy_rank_read(struct legacy_save *ls, uint32_t i, struct zf_torch *t,
                      struct zf_err *err) ZF_CHECKED;
/* Of that: reads `optimizer` of the rank, whose parts have been read, and gives masters and states to the
 * parameters they are proved to be of; the others become strays.
 * Errors: ZF_E_FORMAT a damaged tensor; of the arena. */
bool legacy_optim_read(struct legacy_save *ls, struct legacy_rank *r, struct zf_torch *t,
                       struct zf_err *err) ZF_CHECKED;
/* Reads distrib_optim.pt of rank[i], whose model has been read: the flat buffers of its distributed optimizer.
 * Errors: likewise. */
bool legacy_bucket_read(struct legacy_save *ls, uint32_t i, struct zf_torch *t,
                        struct zf_err *err) ZF_CHECKED;

/* ---- of all ---- */

/* Does each folder hold what its name says, or another rank's file?
 * Errors: ZF_E_FORMAT naming both folders: the sentence is the reason why they are not joined; of
 * reading; ZF_E_NOMEM. */
bool legacy_whose_check(const struct legacy_save *ls, struct zf_err *err) ZF_CHECKED;
/* Compares the copies of weights.  A name that is tied keeps `tied` when its bytes are those of the
 * embedding, and loses it when they are not and args do not say that they should be.
 * Errors: ZF_E_FORMAT naming both files; of reading. */
bool legacy_same_weights(struct legacy_save *ls, struct legacy_join *j,
                         struct zf_err *err) ZF_CHECKED;
/* The same of masters and moments, which all parts of a tensor must have or none; where only a buffer
 * without a map is to blame, the tensor is marked as partial.
 * Errors: likewise: the sentence is the reason why they are not joined. */
bool legacy_same_optim(struct legacy_save *ls, struct legacy_join *j,
                       struct zf_err *err) ZF_CHECKED;
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
