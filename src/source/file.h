/* SPDX-License-Identifier: Apache-2.0 */
/* A regular file of a directory store. */
#ifndef SOURCE_FILE_H
#define SOURCE_FILE_H

#include <sys/stat.h>

#include <zf/source/store.h>

#include "gate.h"
#include "pool.h"

/* Opens `path` (relative to the pool's root) and remembers what it is; `name` is for messages.
 * Takes its own reference on the pool.  Errors: as zf_store_open, without the name. */
struct zf_source *zf_file_new(struct zf_pool *pool, const char *path, const char *name,
                              struct zf_err *err) ZF_CHECKED;

/* What a mode says is there: "a file", "a FIFO", "a directory" … */
const char *zf_file_what(mode_t mode);

/* Counters and mtime when s is a file; false otherwise.  stats_out->path is left alone. */
bool zf_file_stats_get(const struct zf_source *s, struct zf_file_stats *stats_out,
                       struct timespec *mtime_out);

/* Looks the path of s up once more: is it still the file that was opened?  True when s is no file.
 */
bool zf_file_unchanged(struct zf_source *s, struct zf_err *err) ZF_CHECKED;

/* The gate in front of the file, or NULL when s is no file.  Borrows. */
struct zf_gate *zf_file_gate(const struct zf_source *s);

/* The cache that all files of s's store share, or NULL when s is no file.  Borrows. */
struct zf_cache *zf_file_cache(const struct zf_source *s);

#endif
