/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs info: its JSON document, and the text made of it. */
#ifndef CMD_INFO_H
#define CMD_INFO_H

#include <jansson.h>

#include <zf/model/model.h>

#include "options.h"
#include "page.h"

/* ---- info facts ------------------------------------------------------------------------------ */

/* Adds "family", "ranks", "parallel", "versions", "written", "weights", "optimizer", "shards", "saves", "damage"
 * and "remedies" (zerofs(1)) to j.  path: as the user gave it.  Unknown facts are null or empty. */
void info_facts_add(json_t *j, const char *path, const struct zf_checkpoint *c,
                    const struct opts *o);

/* Only the fact "ranks": as recorded, or counted by file names; 0: unknown. */
uint64_t info_facts_ranks(const struct zf_checkpoint *c, const struct opts *o);

/* ---- config note ----------------------------------------------------------------------------- */

/* A sentence, malloc'ed, if config.json names another floating-point type than most of the weights
 * have; else NULL. */
char *config_note(const struct zf_checkpoint *c, const struct zf_limits *lim);

/* ---- info people ----------------------------------------------------------------------------- */

/* Prints the document of zerofs info as text: one line per topic, no wider than the terminal. */
void info_people(const struct page *p, const json_t *j);

#endif
