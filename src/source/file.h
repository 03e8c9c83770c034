/* SPDX-License-Identifier: Apache-2.0 */
/* A regular file of a directory store. */
#ifndef SOURCE_FILE_H
#define SOURCE_FILE_H

#include <sys/stat.h>

#include <zf/base/bytes.h>
#include <zf/base/out.h>
#include <zf/source/gate.h>
#include <zf/source/store.h>

#include "pool.h"

/* Opens `path` (relative to the pool's root) and remembers its identity; if that is given in `known`,
 * the first read opens it.  `name` is for messages.  Takes its own reference on the pool.  Errors:
 * as zf_store_open, without the name. */
struct zf_source *file_new(struct pool *pool, const char *path, const char *name,
                           const struct zf_identity *known, struct zf_err *err) ZF_CHECKED;

bool file_is(const struct zf_source *s);
/* As far_note and far_claim; local files have nothing to note. */
void file_note(struct zf_source *s, struct zf_out *out);
bool file_claim(struct zf_source *s, struct zf_bytes note, struct zf_err *err) ZF_CHECKED;
/* Shares (reflinks) whole blocks of such a file with the file `to`; *done_out: false if the file system cannot.
 * Errors: as of reads. */
bool file_clone(struct zf_source *s, uint64_t off, uint64_t n, int to, uint64_t to_off,
                bool *done_out, struct zf_err *err) ZF_CHECKED;

/* The kind of a mode: "a file", "a FIFO", "a directory" … */
const char *file_what(mode_t mode);

#endif
