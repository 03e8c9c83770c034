/* SPDX-License-Identifier: Apache-2.0 */
/* The steps after a save's files are read, in deepspeed.c's order.  Each step has a
 * file of its own. */
#ifndef FORMAT_DEEPSPEED_STEPS_H
#define FORMAT_DEEPSPEED_STEPS_H

#include "layers.h"

/* Drafts the trained parameters and their states from the files below zero/ of a universal checkpoint.  mp: all
 * ranks as one.  Errors: ZF_E_FORMAT a parameter is missing, or of another save than the others. */
bool ds_universal_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Drafts those of a save without ZeRO, as far as their names can be proved. */
bool ds_zero0_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Once the masters of mp are drafted: gives it the file of each tied module of it that nobody has yet. */
bool ds_layers_tied(struct ds_rank *mp, struct ds_layers *l, struct zf_err *err) ZF_CHECKED;
/* Drafts what has no flat vector: buffers, frozen parameters, tied names. */
bool ds_rest_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Drafts stored/, the 16-bit weights. */
bool ds_stored_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Once all ranks are drafted: drafts what is left of the layers' files, of which nothing is trained, for the
 * rank of the layer before.  Errors: ZF_E_FORMAT the file should be a tied module's, but is not what its masters
 * round to. */
bool ds_layers_frozen(struct ds_save *ds, struct ds_ranks *all, struct ds_layers *l,
                      struct zf_err *err) ZF_CHECKED;
/* Joins the trees of all ranks, once they are drafted, as the user's rules or the save itself say; where
 * neither does, or what they say does not fit, the trees stay and a note says why.
 * Errors: ZF_E_FORMAT the user's rules do not fit, stages that share a module differ; of reading. */
bool ds_tp_join(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;
/* Once the ranks are joined: drafts what the optimizers of a save without ZeRO hold, of which no name is proved, under
 * their numbers, in each rank's tree.  Errors: ZF_E_FORMAT an expert-parallel rank's file is missing; of reading. */
bool ds_numbered_draft(struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;
/* Once everything is drafted, and joined where it can be: compares the masters with the weights of `module`,
 * or, of stage 3, masters and states with the vectors of rank 0 that zero/optimizer_state.pt holds.
 * Errors: ZF_E_FORMAT they differ (degraded, too); of reading. */
bool ds_universal_prove(struct ds_save *ds, const struct ds_ranks *all,
                        struct zf_err *err) ZF_CHECKED;

#endif
