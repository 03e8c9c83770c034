/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of zerofs info that people ask for, as members of its document: all of them recorded in the checkpoint, or counted. */
#ifndef ZF_CMD_INFO_FACTS_H
#define ZF_CMD_INFO_FACTS_H

#include <jansson.h>

#include "options.h"

struct zf_checkpoint;

/* Adds "family", "ranks", "parallel", "versions", "written", "weights", "optimizer", "shards", "saves", "damage" and "remedies"
 * (zerofs(1)) to j.  path: as it was given.  What has no answer is null or empty. */
void info_facts_add(json_t *j, const char *path, const struct zf_checkpoint *c,
                    const struct opts *o);

/* Its "ranks" alone: as recorded, or as the names of the files count them; 0: they do not. */
uint64_t info_facts_ranks(const struct zf_checkpoint *c, const struct opts *o);

#endif
