/* SPDX-License-Identifier: Apache-2.0 */
/* Candidate parameter slices of one rank, in the order in which its flat buffers were filled. */
#ifndef FORMAT_MEGATRON_BUCKET_ROWS_H
#define FORMAT_MEGATRON_BUCKET_ROWS_H

#include <zf/base/table.h>

#include "bucket_match.h"
#include "bucket_order.h"
#include "save.h"

/* A parameter that may be in a buffer. */
struct bucket_candidate {
    size_t param; /* number in the save's list */
    struct mg_text name;
    uint64_t order; /* of its key, MG_NONE = not known */
    size_t rest;    /* where in `name` what follows the layer's number begins; 0 = no layer */
    uint64_t layer, expert; /* MG_NONE: of none */
    uint32_t unit;
    uint64_t stack_order;  /* of the first key of its stack of layers */
    uint64_t expert_order; /* position of the first key of its layer's experts */
};

/* Which parameters one optimizer has. */
enum bucket_class { BUCKET_ALL, BUCKET_DENSE, BUCKET_EXPERTS };

struct bucket_rank {
    enum zf_dtype dtype; /* of the weights in the buffer */
    enum bucket_order order;
    enum bucket_class class;
    bool grouped;    /* the same matrix of all experts, then the next one; else expert by expert */
    uint64_t tensor; /* of the model's tensor-parallel ranks */
    uint64_t expert_tensor;    /* of an expert's */
    uint64_t expert, n_expert; /* of the expert-parallel ranks */
};

struct rows_piece;
struct rows_made;

struct bucket_rows {
    const struct mg_save *s;
    struct zf_arena *arena;
    zf_vec(struct bucket_candidate) candidate;
    uint64_t n_tensor, n_expert_tensor; /* parallel sizes */
    uint64_t n_experts;                 /* of a layer; 0 = there are none */
    bool ordered;                       /* every key has a place */
    uint32_t *sorted[BUCKET_ORDERS][2]; /* [candidate.n] by order and grouping, when asked for */
    struct rows_piece *pieces;          /* what ranks have; uthash */
    struct rows_made *rows;             /* made so far; uthash */
};

/* Looks the save's list through.  Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
bool bucket_rows_init(struct bucket_rows *r, const struct mg_save *s,
                      struct zf_err *err) ZF_CHECKED;
void bucket_rows_fini(struct bucket_rows *r);
static inline void zf_auto_bucket_rows(struct bucket_rows *r)
{
    bucket_rows_fini(r);
}

/* Parameter slices of that rank, valid as long as r; rows share a piece pointer if the slices are identical.
 * NULL: ZF_E_NOMEM, ZF_E_LIMIT. */
const struct bucket_row *bucket_rows_get(struct bucket_rows *r, const struct bucket_rank *rank,
                                         struct zf_err *err) ZF_CHECKED;

#endif
