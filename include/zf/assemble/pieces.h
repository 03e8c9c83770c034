/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are spread over several files: the first file begins the tensor, the others must agree on its type, and
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
    struct pieces_part *part; /* parts that other files may have, too; uthash */
};
void zf_pieces_fini(struct zf_pieces *p);

struct zf_piece {
    struct zf_spot spot;
    struct zf_type type; /* of the whole tensor */
    const char *path;    /* of the file; must outlive struct zf_pieces */
    /* Its elements, whose source must outlive it, too; NULL: no other file has this part. */
    const struct zf_tensor_ref *of;
    const uint64_t *place; /* [n_place] numbers that are equal only for copies of the same part */
    uint32_t n_place;
};

/* Finds or begins the tensor.  *out: the draft to which the part must be added; NULL: it has the part from another
 * file, of which this is a copy.  Errors: ZF_E_FORMAT another type, or a copy that differs (the message names the other
 * file); those of reading and of the build. */
bool zf_pieces_begin(struct zf_pieces *p, const struct zf_piece *x, struct zf_draft **out,
                     struct zf_err *err) ZF_CHECKED;

/* Adds a number that every file repeats, as a tensor without dimensions.  Errors: ZF_E_FORMAT it differs; those of the
 * build. */
bool zf_pieces_number(struct zf_pieces *p, struct zf_spot spot, enum zf_dtype dtype,
                      const void *value, struct zf_err *err) ZF_CHECKED;

/* Notes how many copies were not compared. */
bool zf_pieces_end(const struct zf_pieces *p, struct zf_err *err) ZF_CHECKED;

#endif
