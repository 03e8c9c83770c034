/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the position of each parameter in a flat optimizer buffer.  Megatron checkpoints do not record
 * it, but a buffer is filled in a known order with known alignment, and the weights that its masters
 * round to are in the same save.  This is only the search, over lengths and a comparison, without files.
 *
 * Source: megatron/core/distributed/param_and_grad_buffer.py (_ParamAndGradBuffer.__init__:
 * parameters in reverse order, each at the next multiple of 64 elements, unaligned up to core 0.7; a
 * bucket ends after a parameter, and the next one begins at its own element 0);
 * megatron/core/optimizer/distrib_optimizer.py (get_parameter_state_dp_zero: buckets joined by
 * their unpadded lengths). */
#ifndef FORMAT_MEGATRON_BUCKET_WALK_H
#define FORMAT_MEGATRON_BUCKET_WALK_H

#include <zf/base/err.h>

/* A part of a parameter that one rank may hold, in the order of the buffer.  The pieces of one unit (one
 * layer), which are adjacent in the list, are either all in the buffer or none. */
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
    bool joined;    /* a bucket here is several concatenated ones, with unknown ends */
    uint32_t most;  /* most comparisons; 0 = the limit of one walk */
    /* *same: elements [first, first + piece n) of the bucket can be the masters of this piece.
     * Returns false on a read error, which ends the walk. */
    bool (*same)(void *ctx, uint32_t piece, uint32_t bucket, uint64_t first, bool *same,
                 struct zf_err *err);
    void *ctx;
};

/* The position of a piece. */
struct walk_place {
    bool there;
    uint32_t bucket;
    uint64_t first; /* element of the bucket */
};

enum walk_kind {
    WALK_ONE,     /* exactly one choice of units fills all buckets to their last element */
    WALK_NONE,    /* no choice does */
    WALK_SEVERAL, /* several do: the bytes do not show which is right */
    WALK_MANY,    /* a limit was reached: too many pieces match */
};
struct walk_result {
    enum walk_kind kind;
    uint32_t compared;
    uint32_t bucket; /* NONE: the farthest end that was reached */
    uint64_t end;
};

/* Tries every choice of units.  place: [n_pieces], filled for WALK_ONE.
 * Errors: of `same`; ZF_E_NOMEM. */
bool bucket_walk(const struct walk_in *in, struct walk_place *place, struct walk_result *out,
                 struct zf_err *err) ZF_CHECKED;

#endif
