/* SPDX-License-Identifier: Apache-2.0 */
/* DTensors whose local tensors are made of several others: gathered file by file, placed when all are there. */
#ifndef ASSEMBLE_JOIN_COMPOSED_H
#define ASSEMBLE_JOIN_COMPOSED_H

#include <zf/assemble/names.h>

#include "dtensor_ranges.h"
#include "join_box.h"
#include "parts.h"

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
