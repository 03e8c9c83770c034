/* SPDX-License-Identifier: Apache-2.0 */
/* Saves of a run that are newer than the one that is opened. */
#ifndef FIND_NEWER_H
#define FIND_NEWER_H

#include <zf/find.h>

enum { NEWER_NOTE = 256 };

/* Names saves newer than `name` (a path from st), in a sentence, or "": of its own series beside
 * it, finished or not, or among Megatron's non-persistent saves; and which one was being written. */
void newer_note(struct zf_store *st, const char *name, const struct zf_limits *lim,
                char note[NEWER_NOTE]);

/* The last save in st that was being written, by its name (borrowed from the listing), or NULL. */
const char *newer_unfinished(struct zf_store *st);

#endif
