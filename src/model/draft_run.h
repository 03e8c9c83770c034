/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a draft that are ranges. */
#ifndef MODEL_DRAFT_RUN_H
#define MODEL_DRAFT_RUN_H

#include "build_kind.h"

/* Turns the flat pieces that d has so far into boxes, because one that is no stretch of the tensor
 * comes.  Errors: ZF_E_FORMAT d has parts of other tensors. */
bool draft_run_use_boxes(struct zf_draft *d, struct zf_err *err) ZF_CHECKED;

/* Elements [first, first + n) of a box in its C order, packed at byte `off` of source number `src`. */
struct run {
    const uint64_t *start, *size; /* [ndim]; start NULL = the box begins where the tensor does */
    uint64_t first, n;
    uint64_t off, src;
};
/* Adds one that is, and has elements. */
bool draft_run_add(struct zf_draft *d, const struct run *r, struct zf_err *err) ZF_CHECKED;

#endif
