/* SPDX-License-Identifier: Apache-2.0 */
/* A box of a tensor that several ranks hold: the first copy is used, the others must be equal to it. */
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

/* The ranges of one dimension that a rank holds: usually one, several for _StridedShard.  A rank's
 * part is the product of its dimensions' ranges. */
struct dim_ranges {
    struct range *range;
    uint64_t n;
    uint64_t total; /* elements along the dimension */
};

/* Fills dim [dt->ndim], in arena a, with the ranges of the rank at dt's coordinate.
 * Errors: ZF_E_UNSUPPORTED a partial sum, a strided shard that does not fit its mesh; ZF_E_LIMIT. */
bool ranges_dims(const struct zf_dtensor *dt, struct zf_arena *a, struct dim_ranges *dim,
                 struct zf_err *err) ZF_CHECKED;

struct join_box {
    UT_hash_handle hh;              /* key: a hash of the tensor and the box */
    struct zf_from from;            /* the first copy; without a source for a composed tensor */
    const char *file;               /* file of the first copy; NULL: none so far */
    const struct part_piece *piece; /* the first copy of a composed tensor */
};

/* The source and offset of the part of r that starts at `local` (NULL: at 0).  Errors: ZF_E_FORMAT beyond 64 bits. */
bool join_box_from(const struct zf_tensor_ref *r, const uint64_t *local, struct zf_from *out,
                   struct zf_err *err) ZF_CHECKED;

/* Compares another copy with the first, as zf_copy_check_equal does.  In degraded mode a copy that cannot be read is only
 * noted.  Errors: ZF_E_FORMAT they differ; of reading. */
bool join_box_equal(struct zf_build *b, struct zf_copy_check *check, const struct join_box *first,
                    struct zf_type type, struct zf_from from, struct zf_err *err) ZF_CHECKED;

/* Reports that another copy differs from the first.  Returns false. */
bool join_box_differs(const struct join_box *first, struct zf_err *err);

/* A file's piece of a composed tensor. */
struct composed_chunk {
    struct composed_chunk *next;
    const char *file;
    const struct zf_dtensor *dt;
    const struct part_piece *piece; /* NULL: a plain tensor */
    const uint64_t *start, *size;   /* [ndim] box of the whole tensor; NULL: several boxes */
};

/* Sets the box of c from its ranges, in a.  *empty: it has no elements.  Errors: of the arena. */
bool join_composed_box(struct zf_arena *a, const struct dim_ranges *dim, struct composed_chunk *c,
                       bool *empty, struct zf_err *err) ZF_CHECKED;

/* Adds a copy of c to the key's chunks, in a.  Errors: ZF_E_FORMAT the files disagree about the tensor; of the arena. */
bool join_composed_add(struct zf_arena *a, struct part_key *key, const struct composed_chunk *c,
                       struct zf_err *err) ZF_CHECKED;

/* Compares the pieces of c with those of the first copy of its box, as join_box_equal does.  Errors: ZF_E_FORMAT they differ;
 * of reading. */
bool join_composed_equal(struct zf_build *b, struct zf_copy_check *check,
                         const struct join_box *first, const struct composed_chunk *c,
                         struct zf_err *err) ZF_CHECKED;

/* Adds the tensor of a key that has chunks.  One that cannot be joined is left out with a note, unless that is damage of
 * something other than an optimizer state.  Errors: ZF_E_FORMAT; those of the build. */
bool join_composed_place(struct zf_build *b, struct zf_names *names, const struct part_key *key,
                         struct zf_err *err) ZF_CHECKED;

#endif
