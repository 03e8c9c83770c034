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

#endif
