/* SPDX-License-Identifier: Apache-2.0 */
/* What OLMo-core's unsharding leaves besides model.pt: model/chunk-00000.pt …, dicts of some tensors each,
 * or a file for each tensor, which is called by its name with dashes for dots.
 * Source: olmo_core/distributed/checkpoint/__init__.py, unshard_checkpoint (2.0 … 3.0). */
#ifndef OLMO_UNSHARDED_H
#define OLMO_UNSHARDED_H

#include "save.h"

/* Which dir/ has the model's files: "model", or "" when the store is that directory; NULL: none. */
const char *unsharded_find(struct zf_store *st, const struct zf_limits *lim);

/* Drafts everything of the save. */
bool unsharded_open(struct olmo_save *s, const char *dir, struct zf_err *err) ZF_CHECKED;

#endif
