/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all kinds of pieces of a draft: their range, their source, and the error messages. */
#ifndef MODEL_DRAFT_H
#define MODEL_DRAFT_H

#include "build_kind.h"

/* "tensor \"x\" of shape [2, 3]" for messages. */
#define DRAFT_TEXT 200
const char *draft_text(const struct zf_draft *d, char out[DRAFT_TEXT]);

/* Puts the file of the tensor's metadata, if known, in front of a failure.  Returns false. */
bool draft_place(const struct zf_draft *d, struct zf_err *err);
/* Fails with a message about the tensor, in the file of its metadata. */
bool draft_refuse(const struct zf_draft *d, struct zf_err *err, const char *what) ZF_CHECKED;

/* Errors: ZF_E_FORMAT d is a value, or follows a rule. */
bool draft_takes_pieces(const struct zf_draft *d, struct zf_err *err) ZF_CHECKED;
/* Checks that the box is inside the tensor; *n_out: its elements.  start NULL: all zero.  A box
 * without elements may be anywhere. */
bool draft_box_inside(const struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                      uint64_t *n_out, struct zf_err *err) ZF_CHECKED;

/* The number of pieces that the draft's rule stands for. */
uint64_t draft_slots_ruled(const struct zf_draft *d);

/* Adds a piece record of d's kind, FLAT or BOX, all zero. */
struct piece *draft_new_piece(struct zf_draft *d, struct zf_err *err) ZF_CHECKED;
/* Adds elements [first, first + n) of d, which is FLAT, at byte `off` of source number `src`. */
struct piece *draft_new_flat(struct zf_draft *d, uint64_t first, uint64_t n, uint64_t src,
                             uint64_t off, struct zf_err *err) ZF_CHECKED;
/* Adds all of d, which is EMPTY, at byte `off` of source number `src`. */
bool draft_put_whole(struct zf_draft *d, uint64_t src, uint64_t off, struct zf_err *err) ZF_CHECKED;

/* Registers the source of a piece of `span` bytes at *from; *number: its index.  A source that is too
 * short is refused or, when degraded, replaced by one whose rest is lost; *from then refers to that. */
bool draft_take_source(struct zf_draft *d, struct zf_from *from, uint64_t span, uint32_t *number,
                       struct zf_err *err) ZF_CHECKED;
/* Handles a piece whose source is too short: refused or, when degraded, noted. */
bool draft_tolerate(struct zf_draft *d, const struct zf_from *from, struct zf_err *err) ZF_CHECKED;

/* Makes a source of `size` bytes for d, lost from `cut` on (zf_lost_behind); *out: its index. */
bool draft_lost_source(struct zf_draft *d, struct zf_source *parent, uint64_t cut, uint64_t size,
                       const struct zf_lost *how, uint32_t *out, struct zf_err *err) ZF_CHECKED;

/* Elements [first, first + n) of a box in its C order, at byte `off` of source number `src`. */
struct run {
    const uint64_t *start, *size; /* [ndim]; start NULL = the box begins where the tensor does */
    uint64_t first, n;
    bool whole; /* all of the box: draft_run_inside sets first and n */
    uint64_t off, src;
    const uint64_t *stride; /* [ndim] elements, only with `whole`; NULL = packed */
};
/* Checks that the run is inside its box, and the box inside the tensor. */
bool draft_run_inside(const struct zf_draft *d, struct run *r, struct zf_err *err) ZF_CHECKED;
/* Adds a run that was checked and is not empty. */
bool draft_run_add(struct zf_draft *d, const struct run *r, struct zf_err *err) ZF_CHECKED;
/* Adds elements [first, first + n) of d at byte `off` of source number `src`. */
struct piece *draft_run_flat(struct zf_draft *d, uint64_t first, uint64_t n, uint64_t src,
                             uint64_t off, struct zf_err *err) ZF_CHECKED;

#endif
