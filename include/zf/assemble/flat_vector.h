/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a group as one flat vector that is cut over ranks, in one of two ways.
 *
 * Partitions: the parameters follow each other, with recorded gaps where they are aligned, and the
 * whole is cut into equal partitions; a parameter may cross the cuts.  What was padded at the end
 * may have been trimmed when saved, so positions are sums of actual lengths.
 *
 * Slots: every parameter is cut by itself into ceil(n / ranks) elements a rank, and a rank's part is
 * its slot of each parameter, one behind the other.  What a slot holds beyond the parameter's end
 * is uninitialised memory and never looked at. */
#ifndef ZF_ASSEMBLE_FLAT_VECTOR_H
#define ZF_ASSEMBLE_FLAT_VECTOR_H

#include <zf/base/arena.h>

/* All counts are elements. */
struct zf_flat_vector {
    uint32_t group; /* for messages */
    uint32_t n_params, n_ranks;
    const uint64_t *len; /* [n_params]; borrowed */
    const uint64_t *at;  /* [n_params + 1] begin of each in the vector (slots: in a rank's part) */
    const uint64_t *begin; /* [n_ranks + 1] of each rank's partition; NULL = slots */
};

/* Part of a group's vector on rank r. */
struct zf_flat_part {
    const char *file; /* for messages */
    uint64_t n;
    bool lost; /* n is not known */
};

/* Fills at and begin of v from the rest of it and the ranks' part[n_ranks], one of which is not lost.
 * pad: gaps behind the parameters, [n_params], or NULL.  Up to align * n_ranks - 1 elements more
 * than the parameters have are padding at the end.
 * Errors: ZF_E_FORMAT the lengths do not add up; of the arena. */
bool zf_flat_partitions(struct zf_flat_vector *v, const struct zf_flat_part *part,
                        const uint64_t *pad, uint32_t align, struct zf_arena *a,
                        struct zf_err *err) ZF_CHECKED;
/* Fills at for slots: at[n_params] is what every rank's part must have.  Errors: likewise. */
bool zf_flat_slots(struct zf_flat_vector *v, struct zf_arena *a, struct zf_err *err) ZF_CHECKED;

/* Elements [first, first + n) of a parameter begin at element `at` of the part of that rank. */
struct zf_flat_piece {
    uint32_t rank;
    uint64_t first, n, at;
};
/* The longest piece of parameter i that begins at its element `first` < len[i]. */
struct zf_flat_piece zf_flat_piece(const struct zf_flat_vector *v, uint32_t i, uint64_t first);
/* Slots: the piece of parameter i that a rank has.  False: none. */
bool zf_flat_slot(const struct zf_flat_vector *v, uint32_t i, uint32_t rank,
                  struct zf_flat_piece *out);

#endif
