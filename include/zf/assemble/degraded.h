/* SPDX-License-Identifier: Apache-2.0 */
/* Failures that are noted instead of ending the build. */
#ifndef ZF_ASSEMBLE_DEGRADED_H
#define ZF_ASSEMBLE_DEGRADED_H

#include <zf/base/arena.h>
#include <zf/model/build.h>

/* In a degraded build: notes the failure, clears it and returns true.  Otherwise, and for ZF_E_NOMEM and ZF_E_LIMIT,
 * returns false. */
bool zf_forgive(struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* Calls read(ctx, i) for each of n files.  Degraded: the failure of one is forgiven as long as another can be read.
 * why: NULL, or [n]: set to the reason (in the arena) for each file that could not be read, unchanged for the others.
 * Errors: those of read; if no file can be read, that of the first. */
bool zf_read_each(struct zf_build *b, uint64_t n,
                  bool (*read)(void *ctx, uint64_t i, struct zf_err *err), void *ctx,
                  const char **why, struct zf_arena *a, struct zf_err *err) ZF_CHECKED;

/* In every build: adds a note of the text of fmt, followed by the failure, and clears the failure; kind, about: as for
 * zf_build_note_on.  Errors: those of the note. */
bool zf_note_failure(struct zf_build *b, enum zf_note_kind kind, const char *about,
                     struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6))) ZF_CHECKED;

/* In every build: notes that tensor `name` of `file` (NULL = the file as a whole) is left out, with
 * the failure's message as the reason, and clears the failure.  Errors: those of the note. */
bool zf_leave_out(struct zf_build *b, const char *file, const char *name,
                  struct zf_err *err) ZF_CHECKED;
/* The same for the tensor at a spot, named with its set, since an optimizer state has the name of its weight. */
bool zf_leave_out_at(struct zf_build *b, const char *file, struct zf_spot spot,
                     struct zf_err *err) ZF_CHECKED;

/* In every build: notes, once for all files, that the optimizer state of this name (the last step of its path) is left
 * out where it is no plain tensor, as in `file`, with the failure as the reason, and clears the failure.
 * Errors: those of the note. */
bool zf_leave_out_state(struct zf_build *b, const char *file, const char *state,
                        struct zf_err *err) ZF_CHECKED;

#endif
