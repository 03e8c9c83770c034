/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of one object in the cache on disk. */
#ifndef REMOTE_DISKBLOCKS_H
#define REMOTE_DISKBLOCKS_H

#include "object_inside.h"

/* Is block k of the object there?  Then b holds it.  Never for an object that could be replaced without a
 * trace: one without a strong ETag or a version. */
bool diskblocks_get(struct object *o, uint64_t k, struct block *b);
/* Keeps it, some time. */
void diskblocks_put(struct object *o, uint64_t k, const struct block *b);

#endif
