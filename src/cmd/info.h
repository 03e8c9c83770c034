/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs info: its document, and how people read it. */
#ifndef CMD_INFO_H
#define CMD_INFO_H

#include <jansson.h>

#include <zf/model/model.h>

#include "options.h"
#include "page.h"

/* ---- info facts ------------------------------------------------------------------------------ */

/* Adds "family", "ranks", "parallel", "versions", "written", "weights", "optimizer", "shards", "saves", "damage" and "remedies"
 * (zerofs(1)) to j.  path: as it was given.  What has no answer is null or empty. */
void info_facts_add(json_t *j, const char *path, const struct zf_checkpoint *c,
                    const struct opts *o);

/* Its "ranks" alone: as recorded, or as the names of the files count them; 0: they do not. */
uint64_t info_facts_ranks(const struct zf_checkpoint *c, const struct opts *o);

/* ---- config note ----------------------------------------------------------------------------- */

/* Does config.json say of the weights what they are?  A sentence, malloc'ed, when it names another
 * floating type than most of them have; else NULL. */
char *config_note(const struct zf_checkpoint *c, const struct zf_limits *lim);

/* ---- info people ----------------------------------------------------------------------------- */

/* Prints the document of zerofs info as people read it: a line a question, no wider than the terminal. */
void info_people(const struct page *p, const json_t *j);

#endif
