/* SPDX-License-Identifier: Apache-2.0 */
/* Whose the layers' files are that no name speaks of: a tied module's, or nobody's. */
#ifndef FORMAT_DEEPSPEED_LAYERS_REST_H
#define FORMAT_DEEPSPEED_LAYERS_REST_H

#include "layers.h"

/* Once the masters of mp are drafted: gives it the file of each tied module of it that nobody has yet. */
bool ds_layers_tied(struct ds_rank *mp, struct ds_layers *l, struct zf_err *err) ZF_CHECKED;
/* Once all ranks are drafted: drafts what is left, layers of which nothing is trained, for the rank of the
 * layer before.  Errors: ZF_E_FORMAT the file should be a tied module's, but is not what its masters
 * round to. */
bool ds_layers_frozen(struct ds_save *ds, struct ds_ranks *all, struct ds_layers *l,
                      struct zf_err *err) ZF_CHECKED;

#endif
