/* SPDX-License-Identifier: Apache-2.0 */
/* A box of a tensor that several ranks hold: the first copy is the tensor's, the others must be equal to it. */
#ifndef ASSEMBLE_JOIN_BOX_H
#define ASSEMBLE_JOIN_BOX_H

#include <zf/assemble/names.h>
#include <zf/assemble/values.h>
#include <zf/base/table.h>
#include <zf/codec/dtensor.h>

#include "parts.h"

struct range {
    uint64_t lo, hi;
};

/* The part is the product of the dimensions' ranges: usually one range each, several after a
 * strided cut. */
struct dim_ranges {
    struct range *range;
    uint64_t n;
    uint64_t total; /* elements along the dimension */
};

/* Fills dim [dt->ndim], in arena a: what the rank at dt's coordinate owns.
 * Errors: ZF_E_UNSUPPORTED a partial sum, a strided cut that does not fit its mesh; ZF_E_LIMIT. */
bool ranges_dims(const struct zf_dtensor *dt, struct zf_arena *a, struct dim_ranges *dim,
                 struct zf_err *err) ZF_CHECKED;

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

/* The piece of one file. */
struct composed_chunk {
    struct composed_chunk *next;
    const char *file;
    const struct zf_dtensor *dt;
    const struct part_piece *piece; /* NULL: a plain tensor */
    const uint64_t *start, *size;   /* [ndim] of the whole; NULL: several boxes */
};

/* The box of c->dt that its ranges say, in a.  *empty: it has no elements.  Errors: of the arena. */
bool join_composed_box(struct zf_arena *a, const struct dim_ranges *dim, struct composed_chunk *c,
                       bool *empty, struct zf_err *err) ZF_CHECKED;

/* Adds a copy of c to those of the key, in a.  Errors: ZF_E_FORMAT the files disagree about the tensor; of the arena. */
bool join_composed_add(struct zf_arena *a, struct part_key *key, const struct composed_chunk *c,
                       struct zf_err *err) ZF_CHECKED;

/* Compares the pieces of c with those of the first copy of its box, as join_box_equal does.  Errors: ZF_E_FORMAT they differ;
 * of reading. */
bool join_composed_equal(struct zf_build *b, struct zf_copy_check *check,
                         const struct join_box *first, const struct composed_chunk *c,
                         struct zf_err *err) ZF_CHECKED;

/* Places the tensor of a key that has chunks; one that cannot be joined is left out with a note, as far as that is no damage
 * or it is a state of an optimizer.  Errors: ZF_E_FORMAT; those of the build. */
bool join_composed_place(struct zf_build *b, struct zf_names *names, const struct part_key *key,
                         struct zf_err *err) ZF_CHECKED;

#endif
