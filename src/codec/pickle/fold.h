/* SPDX-License-Identifier: Apache-2.0 */
/* Similar calls, stored as a common form and the differences of each. */
#ifndef CODEC_PICKLE_FOLD_H
#define CODEC_PICKLE_FOLD_H

#include "heap.h"

#define ZF_FOLD_PARTS 64  /* values in one call */
#define ZF_FOLD_BYTES 256 /* bytes of one call's differences */
#define ZF_FOLD_FORMS 64  /* forms of one pickle */

/* One value of a folded call; they are in the order of a pickle. */
struct pickle_fold_part {
    const struct zf_pv *v; /* the same one in all calls; NULL: each has its own */
    uint32_t kind, n;
};

/* The template of calls that are alike.  A call stores only the numbers and texts in which it differs. */
struct pickle_fold_form {
    uint64_t n;
    struct pickle_fold_part part[];
};

struct pickle_folds {
    bool (*wanted)(const struct zf_pv *call); /* NULL = nothing is folded */
    struct pickle_fold_form *form[ZF_FOLD_FORMS];
    uint64_t n, last; /* number of forms, and the index of the one used last */
};

/* Folds, in place, those of the values of n / 2 pairs that can be.
 * Errors: ZF_E_LIMIT; ZF_E_NOMEM. */
bool pickle_fold_values(struct pickle_folds *f, struct pickle_heap *h, struct zf_pv **pairs,
                        uint64_t n, struct zf_err *err) ZF_CHECKED;

#endif
