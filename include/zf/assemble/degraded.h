/* SPDX-License-Identifier: Apache-2.0 */
/* Failures that are noted instead of ending the build. */
#ifndef ZF_ASSEMBLE_DEGRADED_H
#define ZF_ASSEMBLE_DEGRADED_H

#include <zf/base/arena.h>
#include <zf/model/build.h>

/* In a degraded build: notes the failure, forgets it and answers true.  Else, and where memory or a
 * limit ran out, false. */
bool zf_forgive(struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* Calls read(ctx, i) for each of n files.  Degraded: the failure of one is forgiven as long as another can be read.
 * why: NULL, or [n], which is told why each could not be, in the arena; else left as it is.
 * Errors: of read, where none can be read those of the first. */
bool zf_read_each(struct zf_build *b, uint64_t n,
                  bool (*read)(void *ctx, uint64_t i, struct zf_err *err), void *ctx,
                  const char **why, struct zf_arena *a, struct zf_err *err) ZF_CHECKED;

/* In every build: notes the failure, behind the words of fmt, and forgets it; kind, about: as of zf_build_note_on.
 * Errors: of the note. */
bool zf_note_failure(struct zf_build *b, enum zf_note_kind kind, const char *about,
                     struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6))) ZF_CHECKED;

/* In every build: notes that tensor `name` of `file` (NULL = the file as a whole) is left out, with
 * the failure's message as the reason, and forgets the failure.  Errors: of the note. */
bool zf_leave_out(struct zf_build *b, const char *file, const char *name,
                  struct zf_err *err) ZF_CHECKED;
/* The same of the tensor that would be there: an optimizer's is named with its state, which would be taken for the weight. */
bool zf_leave_out_at(struct zf_build *b, const char *file, struct zf_spot spot,
                     struct zf_err *err) ZF_CHECKED;

/* In every build: notes once for all files that the optimizer state of this name (its last step) is left out where it is no plain tensor,
 * as it is in `file`, and forgets the failure that says why.  Errors: of the note. */
bool zf_leave_out_state(struct zf_build *b, const char *file, const char *state,
                        struct zf_err *err) ZF_CHECKED;

#endif
