/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor that several ranks saved whole: one tensor if their copies are equal. */
#ifndef ASSEMBLE_REPLICAS_H
#define ASSEMBLE_REPLICAS_H

#include <zf/assemble/coord.h>
#include <zf/assemble/torch_place.h>
#include <zf/assemble/values.h>

struct replica {
    struct replica *next;
    const struct zf_tensor_ref *ref;
    const char *file;
    struct zf_coord at;
};

/* The copies of one tensor, in the order in which they are to be asked; {0} has none. */
struct replicas {
    struct replica *first, *last;
    bool extra; /* no weights: shown under extra/ */
};

struct replicas_place {
    struct zf_build *b;
    struct zf_names *names;
    struct zf_mesh mesh;
    struct zf_copy_check check;
};

/* Places the tensor of that path: once where all who have it hold the same, else each copy under
 * extra/<key>.<place>, with a note.  Two copies are compared as zf_copy_check_equal says.
 * Errors: of the build; of the sources. */
bool replicas_place(struct replicas_place *p, struct zf_path path, const struct replicas *r,
                    struct zf_err *err) ZF_CHECKED;

#endif
