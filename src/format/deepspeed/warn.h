/* SPDX-License-Identifier: Apache-2.0 */
/* Where DeepSpeed's own tools are wrong about a save. */
#ifndef FORMAT_DEEPSPEED_WARN_H
#define FORMAT_DEEPSPEED_WARN_H

#include "rank.h"

/* Notes it, with what shows it.  Pre: the rank is drafted, its prefix set. */
bool ds_warn_note(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Notes that the optimizer, in `file`, counted otherwise than the model: the files of the one may
 * be of another step than those of the other, which repeat nothing but the settings.  Steps that
 * overflowed are not the optimizer's, and up to 0.9 it counted one more. */
bool ds_warn_steps(struct ds_save *ds, const struct ds_model *m, double optim, const char *file,
                   struct zf_err *err) ZF_CHECKED;

#endif
