/* SPDX-License-Identifier: Apache-2.0 */
/* Plain tensors of a save with a file a rank:
 * which are copies of one another, and which are not. */
#ifndef ASSEMBLE_REPLICAS_H
#define ASSEMBLE_REPLICAS_H

#include <zf/assemble/torch_place.h>

struct zf_copies;

/* Borrows all three until it is freed. */
struct zf_copies *zf_copies_new(struct zf_build *b, struct zf_names *names, struct zf_arena *arena,
                                struct zf_err *err) ZF_CHECKED;
void zf_copies_free(struct zf_copies *c); /* NULL is fine */

/* Remembers the dense tensor of a rank; ranks come in ascending order.  The file's zf_torch must
 * live until zf_copies_place.  What zerofs cannot read is told in a note.
 * Errors: ZF_E_FORMAT, ZF_E_NOMEM. */
bool zf_copies_add(struct zf_copies *c, const struct zf_place_file *f, uint32_t rank,
                   const struct zf_leaf *leaf, struct zf_err *err) ZF_CHECKED;

/* Places each tensor in the order in which they came: once where all ranks that have it hold the
 * same, else every rank's under extra/<key>.rank<R>, with a note. Copies up to 1 MiB are compared
 * wholly, larger ones at their ends and in the middle; when comparing has read 256 MiB the rest is
 * taken as equal when type and shape are, and a note says so.
 * Errors: of the build; of the sources. */
bool zf_copies_place(struct zf_copies *c, struct zf_err *err) ZF_CHECKED;

#endif
