/* SPDX-License-Identifier: Apache-2.0 */
/* -o local_cache=DIR, as OLMo means it: a file of the checkpoint that lies in DIR too, under the same
 * path and with the same size, is read from there.  Source: OLMo olmo/util.py, resource_path (0.6.0),
 * which looks for the name alone; the size is our own condition. */
#ifndef REMOTE_LOCAL_CACHE_H
#define REMOTE_LOCAL_CACHE_H

#include <zf/source/store.h>

/* The file at `path` of the store, if it has this size; NULL: none, or it cannot be opened. */
struct zf_source *local_cache_open(struct zf_store *dir, const char *path, uint64_t size);

/* Is it a source that local_cache_open gave? */
bool local_cache_is(const struct zf_source *src);

#endif
