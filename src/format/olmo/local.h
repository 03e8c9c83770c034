/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo's "local" layout: model/, optim/ and train/ with a torch.save file a rank, in which FSDP1's flat
 * parameters lie as each rank had them.  docs/formats/olmo.md says what is where. */
#ifndef OLMO_LOCAL_H
#define OLMO_LOCAL_H

#include "save.h"

/* Which dir/ has the files of such a save: "model", or "" when the store is that directory itself;
 * NULL: none.  Looks at names and the head of one file. */
const char *local_find(struct zf_store *st);

/* Drafts everything of the save. */
bool local_open(struct olmo_save *s, const char *dir, struct zf_err *err) ZF_CHECKED;

/* Are its rank files the optimizer's part alone?  A moment is a vector of what a rank has of its
 * parameter then, and of what only model/ says: two equal halves would pass for one. */
bool local_is_optim(struct zf_store *st, const struct zf_limits *lim);

#endif
