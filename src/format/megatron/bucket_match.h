/* SPDX-License-Identifier: Apache-2.0 */
/* Locates the stored weights in a flat buffer of masters: the walk of bucket_walk.h with a comparison
 * of elements. */
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
/* One rank's part of a parameter: its boxes, concatenated (a gated fc1 has two, one per half). */
struct bucket_piece {
    uint32_t weight; /* index in the list of parameters */
    uint32_t n_boxes;
    const struct bucket_box *box;
    uint64_t n;                 /* elements of all boxes, > 0 */
    const uint8_t *head, *tail; /* its first and last elements, once read; or NULL */
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
    const char *name; /* for messages: the object's key, or the tensors' keys without bucket_idx */
    uint32_t chain;   /* MG_NO_CHAIN */
    uint64_t group, gbuf;
    struct mg_text dtype; /* "(torch.bfloat16, torch.float32)": dtypes of weights and gradients */
    uint32_t n_buckets, n_states;
    struct flat_state *state;
    const struct flat_state *master; /* or NULL */
    uint64_t *len;                   /* [n_buckets] without padding; NULL = not known */
    bool joined;                     /* see walk_in */
    const char *why;                 /* why it cannot be mapped, or NULL */
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
    uint32_t ahead, few;              /* as in zf_ahead_work */
    struct zf_arena *arena;           /* holds the cached ends of pieces */
};
/* Finds the position of each piece of the row in the buffer.  The first and last ZF_VALUES_ENDS elements
 * of each are compared.  Pieces of a dtype that masters cannot round to match nowhere.  place: [row->n].
 * Errors: of bucket_walk and zf_draft_read. */
bool bucket_match(const struct bucket_question *q, struct walk_place *place,
                  struct walk_result *out, struct zf_err *err) ZF_CHECKED;

/* Makes tensors from the objects of dp_zero, and finds all buffers; strings and arrays live in `arena`.
 * A buffer that cannot be mapped has a reason in `why`.  Errors: of the build; ZF_E_NOMEM. */
bool mg_flat_find(struct mg_save *s, struct zf_arena *arena, struct flat_buffers *out,
                  struct zf_err *err) ZF_CHECKED;

#endif
