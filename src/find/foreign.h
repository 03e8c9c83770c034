/* SPDX-License-Identifier: Apache-2.0 */
/* Things that are no checkpoint zerofs reads: other formats, archives, broken links. */
#ifndef FIND_FOREIGN_H
#define FIND_FOREIGN_H

#include <zf/source/store.h>

/* True, and *err is filled, when st's root itself is a save of a kind that zerofs does not read. */
bool foreign_save(struct zf_store *st, struct zf_err *err);

/* The same for those of which a family would take some files for a save of its own: asked before any is.  file: the
 * one file of st's root that was pointed at, or NULL; behind an address it is judged alone. */
bool foreign_whole(struct zf_store *st, const char *file, struct zf_err *err);

/* The first thing in st, or in the directories below, that is known by name or content; only: look
 * at no other file than this one in st's root, NULL = at all.  Fills *err (ZF_E_UNSUPPORTED, or
 * ZF_E_FORMAT for a link that leads nowhere) and returns true, or returns false. */
bool foreign_find(struct zf_store *st, const char *only, struct zf_err *err);

#endif
