/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a group as one flat vector that is sharded over ranks, in one of two ways.
 *
 * Partitions: the parameters follow each other, with recorded gaps where they are aligned, and the whole vector is cut
 * into equal partitions; a parameter may cross the cuts.  The padding at the end may have been trimmed when saved, so
 * positions are sums of actual lengths.
 *
 * Slots: every parameter is cut separately into ceil(n / ranks) elements per rank, and a rank's part consists of its
 * slots of all parameters, one after the other.  The elements of a slot beyond the parameter's end are uninitialised
 * memory and never read. */
#ifndef ZF_ASSEMBLE_FLAT_VECTOR_H
#define ZF_ASSEMBLE_FLAT_VECTOR_H

#include <zf/base/arena.h>

/* All counts are elements. */
struct zf_flat_vector {
    uint32_t group; /* for messages */
    uint32_t n_params, n_ranks;
    const uint64_t *len; /* [n_params]; borrowed */
    const uint64_t *at;  /* [n_params + 1] offset of each in the vector (slots: in a rank's part) */
    const uint64_t *begin; /* [n_ranks + 1] offset of each rank's partition; NULL = slots */
};

/* One rank's part of a group's vector. */
struct zf_flat_part {
    const char *file; /* for messages */
    uint64_t n;
    bool lost; /* n is not known */
};

/* Computes v->at and v->begin from the other fields and the ranks' part[n_ranks], at least one of which must not be
 * lost.  pad: the gaps after the parameters, [n_params], or NULL.  Up to align * n_ranks - 1 elements beyond the
 * parameters are taken as padding at the end.  Errors: ZF_E_FORMAT the lengths do not add up; those of the arena. */
bool zf_flat_partitions(struct zf_flat_vector *v, const struct zf_flat_part *part,
                        const uint64_t *pad, uint32_t align, struct zf_arena *a,
                        struct zf_err *err) ZF_CHECKED;
/* Computes v->at for slots; at[n_params] is the length that every rank's part must have.  Errors: the same. */
bool zf_flat_slots(struct zf_flat_vector *v, struct zf_arena *a, struct zf_err *err) ZF_CHECKED;

/* Elements [first, first + n) of a parameter, which begin at element `at` of the rank's part. */
struct zf_flat_piece {
    uint32_t rank;
    uint64_t first, n, at;
};
/* The longest piece of parameter i that begins at its element `first` < len[i]. */
struct zf_flat_piece zf_flat_piece(const struct zf_flat_vector *v, uint32_t i, uint64_t first);
/* Slots: finds the rank's piece of parameter i.  False: it has none. */
bool zf_flat_slot(const struct zf_flat_vector *v, uint32_t i, uint32_t rank,
                  struct zf_flat_piece *out);

#endif
