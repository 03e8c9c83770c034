/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes what zerofs cannot read: other formats, archives, broken links. */
#ifndef FIND_FOREIGN_H
#define FIND_FOREIGN_H

#include <zf/source/store.h>

/* True, and *err is filled, if st's root itself is a save of a format that zerofs does not read. */
bool foreign_save(struct zf_store *st, struct zf_err *err);

/* Likewise for formats of which a family would mistake some files for a save: called before all families.  file: the
 * file in st's root that the user gave, or NULL; in a remote store only this file is examined. */
bool foreign_whole(struct zf_store *st, const char *file, struct zf_err *err);

/* Finds the first such thing in st or its subdirectories, by name or content; only: examine only this
 * file in st's root, NULL = all.  Fills *err (ZF_E_UNSUPPORTED, or ZF_E_FORMAT for a dangling link) and
 * returns true, or returns false. */
bool foreign_find(struct zf_store *st, const char *only, struct zf_err *err);

#endif
