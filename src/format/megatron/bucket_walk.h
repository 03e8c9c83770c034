/* SPDX-License-Identifier: Apache-2.0 */
/* Where in a flat optimizer buffer is which parameter?  No Megatron checkpoint says so; but a
 * buffer is filled in a known order, at known steps, and what its masters round to is stored
 * beside it.  This is the search alone, over lengths and a comparison, without files.
 *
 * Source: megatron/core/distributed/param_and_grad_buffer.py (_ParamAndGradBuffer.__init__:
 * parameters in reverse order, each at the next multiple of 64 elements, of 1 up to core 0.7; a
 * bucket ends behind a parameter, and the next begins at 0 of its own);
 * megatron/core/optimizer/distrib_optimizer.py (get_parameter_state_dp_zero: buckets joined by
 * their unpadded lengths). */
#ifndef FORMAT_MEGATRON_BUCKET_WALK_H
#define FORMAT_MEGATRON_BUCKET_WALK_H

#include <zf/base/err.h>

/* A part of a parameter that one rank may hold, in the order of the buffer.  Pieces of one unit, which follow
 * one another, are there all or none: those of one layer. */
struct walk_piece {
    uint64_t n; /* elements, > 0 */
    uint32_t unit;
};

struct walk_in {
    const struct walk_piece *piece;
    uint32_t n_pieces;
    /* [n_buckets] elements of the buckets of this buffer, in order, without padding */
    const uint64_t *len;
    uint32_t n_buckets;
    uint64_t align; /* elements */
    bool joined;    /* one bucket here is several, end to end, and where one ends is not known */
    uint32_t most;  /* comparisons; 0 = as many as one walk may make */
    /* Are elements [first, first + piece n) of the bucket what this piece's masters can be?
     * False is an error of reading, which ends the walk. */
    bool (*same)(void *ctx, uint32_t piece, uint32_t bucket, uint64_t first, bool *same,
                 struct zf_err *err);
    void *ctx;
};

/* Where a piece is. */
struct walk_place {
    bool there;
    uint32_t bucket;
    uint64_t first; /* element of the bucket */
};

enum walk_kind {
    WALK_ONE,     /* one way fills all buckets to their last element */
    WALK_NONE,    /* none does */
    WALK_SEVERAL, /* more than one does: the bytes do not tell which */
    WALK_MANY,    /* too many beginnings fit to try them all */
};
struct walk_result {
    enum walk_kind kind;
    uint32_t compared;
    uint32_t bucket; /* NONE: how far the farthest attempt came */
    uint64_t end;
};

/* Tries every choice of units.  place: [n_pieces], filled when there is one way.
 * Errors: of `same`; ZF_E_NOMEM. */
bool bucket_walk(const struct walk_in *in, struct walk_place *place, struct walk_result *out,
                 struct zf_err *err) ZF_CHECKED;

#endif
