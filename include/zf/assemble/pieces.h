/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of which several files have a part each: the first file begins the tensor, the others must agree about its type, and
 * a part that two files have must be equal in both. */
#ifndef ZF_ASSEMBLE_PIECES_H
#define ZF_ASSEMBLE_PIECES_H

#include <zf/assemble/tensor_ref.h>
#include <zf/assemble/values.h>
#include <zf/model/build.h>

/* {.b = b} is empty. */
struct zf_pieces {
    struct zf_build *b;
    struct zf_copy_check copies;
    struct pieces_part *part; /* that other files may have, too; uthash */
};
void zf_pieces_fini(struct zf_pieces *p);

struct zf_piece {
    struct zf_spot spot;
    struct zf_type type; /* of the whole tensor */
    const char *path;    /* of the file; stays */
    /* Its elements, NULL: no other file has this part.  The source stays. */
    const struct zf_tensor_ref *of;
    const uint64_t *place; /* [n_place] numbers that only copies of the part have alike */
    uint32_t n_place;
};

/* Finds or begins the tensor: *out is to get the part; NULL: it has it, of another file, and this is a copy.
 * Errors: ZF_E_FORMAT another type, a copy that differs: the file is named that had it; of reading; of the build. */
bool zf_pieces_begin(struct zf_pieces *p, const struct zf_piece *x, struct zf_draft **out,
                     struct zf_err *err) ZF_CHECKED;

/* A number that every file repeats, a tensor without dimensions.  Errors: ZF_E_FORMAT it differs; of the build. */
bool zf_pieces_number(struct zf_pieces *p, struct zf_spot spot, enum zf_dtype dtype,
                      const void *value, struct zf_err *err) ZF_CHECKED;

/* Notes how many copies were not compared. */
bool zf_pieces_end(const struct zf_pieces *p, struct zf_err *err) ZF_CHECKED;

#endif
