/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are alike, kept as what they have in common and what is different in each. */
#ifndef CODEC_PICKLE_FOLD_H
#define CODEC_PICKLE_FOLD_H

#include "heap.h"

#define ZF_FOLD_PARTS 64  /* values in one call */
#define ZF_FOLD_BYTES 256 /* of what is different */
#define ZF_FOLD_FORMS 64  /* of one pickle */

/* One value of a folded call, in the order in which a pickle would say them. */
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
    uint64_t n, last; /* forms, and the one that was met last */
};

/* Folds those of the values of n / 2 pairs that can be, where they are.
 * Errors: ZF_E_LIMIT; ZF_E_NOMEM. */
bool pickle_fold_values(struct pickle_folds *f, struct pickle_heap *h, struct zf_pv **pairs,
                        uint64_t n, struct zf_err *err) ZF_CHECKED;

#endif
