/* SPDX-License-Identifier: Apache-2.0 */
/* A box of a tensor that several ranks hold: the first copy is the tensor's, the others must be equal to it. */
#ifndef ASSEMBLE_JOIN_BOX_H
#define ASSEMBLE_JOIN_BOX_H

#include <zf/assemble/values.h>
#include <zf/base/table.h>

/* By the hash of the tensor and the box. */
struct join_box {
    UT_hash_handle hh;
    struct zf_from from;            /* the first copy; of a composed tensor: no source, … */
    const char *file;               /* its file; NULL: there is none so far */
    const struct part_piece *piece; /* … but this */
};

/* The place in r of the part that begins at `local` (NULL: its corner).  Errors: ZF_E_FORMAT beyond 64 bits. */
bool join_box_from(const struct zf_tensor_ref *r, const uint64_t *local, struct zf_from *out,
                   struct zf_err *err) ZF_CHECKED;

/* Compares a further copy with the first, as zf_copy_check_equal does.  Degraded, a copy that cannot be read is noted and
 * proves nothing.  Errors: ZF_E_FORMAT they differ; of reading. */
bool join_box_equal(struct zf_build *b, struct zf_copy_check *check, const struct join_box *first,
                    struct zf_type type, struct zf_from from, struct zf_err *err) ZF_CHECKED;

/* Fails with it: a further copy differs from the first. */
bool join_box_differs(const struct join_box *first, struct zf_err *err);

#endif
