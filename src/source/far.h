/* SPDX-License-Identifier: Apache-2.0 */
/* What a file of a place that is not local has beside a descriptor: when its path was last looked at, and the first
 * bytes that were read of it, in short.  The rule that this follows: place.h. */
#ifndef SOURCE_FAR_H
#define SOURCE_FAR_H

#include <zf/base/bytes.h>
#include <zf/base/out.h>

#include "pool.h"
#include "same.h"

struct far;

/* began: the file was looked at after that (CLOCK_REALTIME).  Errors: ZF_E_NOMEM. */
struct far *far_new(const struct zf_identity *id, struct timespec began,
                    struct zf_err *err) ZF_CHECKED;
void far_free(struct far *f); /* NULL is fine */

/* Its path was looked at just now. */
void far_looked(struct far *f);
/* It was opened again by its path. */
void far_reopened(struct far *f, const struct same *s);

/* Looks at the path where the last look was a second ago; whoever comes meanwhile waits for the answer.  how: as for
 * same_check.  Errors: of that; ZF_E_STALE it is gone. */
struct far_path {
    struct pool *pool;
    const char *path;
};
bool far_look(struct far *f, struct far_path at, struct same *s, struct same_how how,
              struct zf_err *err) ZF_CHECKED;

/* p[n] was read at off. */
void far_saw(struct far *f, const void *p, size_t n, uint64_t off);
/* Compares what was read before, where times could not tell of a change.  Errors: ZF_E_STALE, from then on for ever;
 * ZF_E_IO. */
bool far_prove(struct far *f, int fd, struct same *s, struct zf_err *err) ZF_CHECKED;

/* Writes a note of the bytes read so far, for another process … */
void far_note(struct far *f, struct zf_out *out);
/* … that compares it before its first read.  Errors: ZF_E_FORMAT no such note of a file of `size` bytes. */
bool far_claim(struct far *f, struct zf_bytes note, uint64_t size, struct zf_err *err) ZF_CHECKED;

#endif
