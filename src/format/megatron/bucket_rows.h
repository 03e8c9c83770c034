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
    size_t param; /* index in the save's list */
    struct mg_text name;
    uint64_t order;         /* position of its key, MG_NONE = unknown */
    size_t rest;            /* index in `name` after the layer's number; 0 = in no layer */
    uint64_t layer, expert; /* MG_NONE: none */
    uint32_t unit;
    uint64_t stack_order;  /* position of the first key of its stack of layers */
    uint64_t expert_order; /* position of the first key of its layer's experts */
};

/* The parameters of one optimizer: all, all but experts, or experts only. */
enum bucket_class { BUCKET_ALL, BUCKET_DENSE, BUCKET_EXPERTS };

struct bucket_rank {
    enum zf_dtype dtype; /* dtype of the weights whose masters are in the buffer */
    enum bucket_order order;
    enum bucket_class class;
    bool grouped;    /* the same matrix of all experts, then the next one; else expert by expert */
    uint64_t tensor; /* tensor-parallel rank */
    uint64_t expert_tensor;    /* expert-tensor-parallel rank */
    uint64_t expert, n_expert; /* expert-parallel rank and size */
};

struct rows_piece;
struct rows_made;

struct bucket_rows {
    const struct mg_save *s;
    struct zf_arena *arena;
    zf_vec(struct bucket_candidate) candidate;
    uint64_t n_tensor, n_expert_tensor; /* parallel sizes */
    uint64_t n_experts;                 /* experts per layer; 0 = none */
    bool ordered;                       /* the position of every key is known */
    uint32_t *sorted[BUCKET_ORDERS][2]; /* [candidate.n] by order and grouping, made on demand */
    struct rows_piece *pieces;          /* cached pieces of ranks; uthash */
    struct rows_made *rows;             /* cached rows; uthash */
};

/* Lists the candidates among the save's parameters.  Errors: ZF_E_NOMEM, ZF_E_LIMIT. */
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
