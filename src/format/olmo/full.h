/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo's full checkpoints in safetensors, whose names are pickled paths (key64.h).  Those in torch.save
 * files alone, family torch reads. */
#ifndef OLMO_FULL_H
#define OLMO_FULL_H

#include "save.h"

/* The first file that has such names (of the store, or the one that was pointed at), or NULL; looks
 * at the heads of the files that OLMo would have written. */
const char *full_find(const struct zf_save *save, const struct zf_limits *lim);

/* Drafts everything of the save. */
bool full_open(struct olmo_save *s, const struct zf_save *save, struct zf_err *err) ZF_CHECKED;

#endif
