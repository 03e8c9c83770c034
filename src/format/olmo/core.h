/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo-core 0.x, which OLMo's checkpointer "olmo_core" writes too: model/ and optim/ each with a
 * metadata.json and a safetensors file a rank.  docs/formats/olmo.md says what is where. */
#ifndef OLMO_CORE_H
#define OLMO_CORE_H

#include "save.h"

/* Which dir/ has the files of the model: "model", or "" when the store is one of the two directories
 * itself; NULL: none.  Looks at names and the head of metadata.json. */
const char *core_find(struct zf_store *st);

/* Drafts everything of the save. */
bool core_open(struct olmo_save *s, const char *dir, struct zf_err *err) ZF_CHECKED;

#endif
