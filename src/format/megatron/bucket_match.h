/* SPDX-License-Identifier: Apache-2.0 */
/* A flat buffer of masters against the stored weights: the walk of bucket_walk.h with a comparison of
 * elements. */
#ifndef FORMAT_MEGATRON_BUCKET_MATCH_H
#define FORMAT_MEGATRON_BUCKET_MATCH_H

#include <zf/base/arena.h>
#include <zf/model/build.h>

#include "bucket_walk.h"
#include "save.h"

/* A box of a parameter. */
struct bucket_box {
    const uint64_t *start, *size; /* [ndim] */
};
/* One rank's part of a parameter: boxes of it, one behind the other (both halves of a gated fc1). */
struct bucket_piece {
    uint32_t weight; /* number in the list of parameters */
    uint32_t n_boxes;
    const struct bucket_box *box;
    uint64_t n;                 /* elements of all of them, > 0 */
    const uint8_t *head, *tail; /* its first and last elements, once they were read; or NULL */
};

/* The pieces of one rank in the order of its buffers; walk[i].n is that of piece[i]. */
struct bucket_row {
    struct bucket_piece **piece;
    struct walk_piece *walk;
    uint32_t n;
};

/* The flat buffers of a save: tensors of bucket space and dp_reshardable, and those in the objects of
 * dp_zero_gather_scatter. */

/* One state of a buffer. */
struct flat_state {
    struct mg_text name;
    struct zf_draft **bucket; /* [n_buckets] */
};
struct flat_buffer {
    const char *name; /* of the object, or of the keys without bucket_idx; for messages */
    uint32_t chain;   /* MG_NO_CHAIN */
    uint64_t group, gbuf;
    struct mg_text dtype; /* "(torch.bfloat16, torch.float32)": of weights and of gradients */
    uint32_t n_buckets, n_states;
    struct flat_state *state;
    const struct flat_state *master; /* or NULL */
    uint64_t *len;                   /* [n_buckets] without padding; NULL = not known */
    bool joined;                     /* see walk_in */
    const char *why;                 /* it cannot be mapped, or NULL */
};
struct flat_buffers {
    zf_vec(struct flat_buffer);
};
static inline void zf_auto_flat_buffers(struct flat_buffers *f)
{
    zf_vec_fini(f);
}

struct bucket_question {
    const struct mg_param *weight; /* the list of parameters: stored weights */
    const struct bucket_row *row;
    const struct flat_buffer *buffer; /* has masters and lengths */
    uint64_t align;                   /* see walk_in */
    uint32_t most;                    /* see walk_in */
    uint32_t ahead, few;              /* as of zf_ahead_work */
    struct zf_arena *arena;           /* what is read of the pieces is kept here */
};
/* Which piece of the row is where in the buffer?  ZF_VALUES_ENDS elements at either end of each are
 * compared.  Pieces of types that cannot be the rounded masters match nowhere.  place: [row->n].
 * Errors: of bucket_walk and zf_draft_read. */
bool bucket_match(const struct bucket_question *q, struct walk_place *place,
                  struct walk_result *out, struct zf_err *err) ZF_CHECKED;

/* Makes tensors of what dp_zero's objects hold, and finds all buffers; texts and arrays live in `arena`.
 * A fault of one buffer is its `why`.  Errors: of the build; ZF_E_NOMEM. */
bool mg_flat_find(struct mg_save *s, struct zf_arena *arena, struct flat_buffers *out,
                  struct zf_err *err) ZF_CHECKED;

#endif
