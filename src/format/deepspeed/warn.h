/* SPDX-License-Identifier: Apache-2.0 */
/* Where DeepSpeed's own tools are wrong about a save. */
#ifndef FORMAT_DEEPSPEED_WARN_H
#define FORMAT_DEEPSPEED_WARN_H

#include "rank.h"

/* Notes it, with what shows it.  Pre: the rank is drafted, its prefix set. */
bool ds_warn_note(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

#endif
