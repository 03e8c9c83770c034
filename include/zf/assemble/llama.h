/* SPDX-License-Identifier: Apache-2.0 */
/* How the parameters of Llama are sharded over tensor-parallel ranks: known by their names, proved by the model's
 * width.
 * Source: llama/model.py of Llama 1 … 3.1 (fairscale's ColumnParallelLinear, RowParallelLinear,
 * ParallelEmbedding, VocabParallelEmbedding); transformers 4.34 … 4.44, convert_llama_weights_to_hf.py. */
#ifndef ZF_ASSEMBLE_LLAMA_H
#define ZF_ASSEMBLE_LLAMA_H

#include <zf/assemble/tree_join.h>
#include <zf/model/build.h>
#include <zf/source/store.h>

/* All counts are elements; 0 = not known. */
struct zf_llama_width {
    uint64_t model;      /* hidden size, the length of norm.weight */
    uint64_t query, key; /* of all heads together; key: also for values */
    uint64_t vocabulary;
    bool
        proved; /* the full size of a sharded dimension was known, which proves the number of ranks */
};

/* Reads the model's sizes from params.json in st, if it exists, and from `norm`, the length of norm.weight.
 * Errors: ZF_E_FORMAT invalid JSON, or it contradicts norm.weight; those of the store. */
bool zf_llama_width_read(struct zf_store *st, uint64_t norm, const struct zf_limits *lim,
                         struct zf_llama_width *out, struct zf_err *err) ZF_CHECKED;

/* Gives the rule for a parameter, whose shards all have one shape.
 * Errors: ZF_E_UNSUPPORTED no parameter of Llama; ZF_E_FORMAT its shards do not add up to the model's sizes. */
bool zf_llama_cut(struct zf_llama_width *w, const struct zf_tree_tensor *t, struct zf_cut_rule *out,
                  struct zf_err *err) ZF_CHECKED;

/* Checks that b, made from st's only file consolidated.00.pth, is the whole model, as far as params.json tells.
 * Errors: ZF_E_FORMAT other files are missing (in a degraded build a note); those of the store. */
bool zf_llama_check_alone(struct zf_store *st, const struct zf_limits *lim, struct zf_build *b,
                          struct zf_err *err) ZF_CHECKED;

#endif
