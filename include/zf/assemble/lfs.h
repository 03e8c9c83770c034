/* SPDX-License-Identifier: Apache-2.0 */
/* Git LFS leaves a small text in place of a file that was not fetched: the usual reason why a model
 * cloned from a hub does not open. */
#ifndef ZF_ASSEMBLE_LFS_H
#define ZF_ASSEMBLE_LFS_H

#include <zf/source/store.h>

/* Is this such a text?  Source: git-lfs, docs/spec.md (version 1). */
bool zf_lfs_is(struct zf_source *src);

/* Says so, without a path. */
bool zf_lfs_fail(struct zf_err *err);

/* The first file in st's root that is one, or NULL; borrowed from the listing.  only: look at no
 * other file; NULL = at all. */
const char *zf_lfs_find(struct zf_store *st, const char *only);

#endif
