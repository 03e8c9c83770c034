/* SPDX-License-Identifier: Apache-2.0 */
/* How the parameters of Llama are cut over tensor-parallel ranks: by their names, proved by the model's
 * width.  Source: llama/model.py of Llama 1 … 3.1 (fairscale's ColumnParallelLinear, RowParallelLinear,
 * ParallelEmbedding, VocabParallelEmbedding); transformers 4.34 … 4.44, convert_llama_weights_to_hf.py. */
#ifndef ZF_ASSEMBLE_LLAMA_H
#define ZF_ASSEMBLE_LLAMA_H

#include <zf/assemble/tree_join.h>
#include <zf/model/build.h>
#include <zf/source/store.h>

/* All counts are elements; 0 = not known. */
struct zf_llama_width {
    uint64_t model;      /* of the residual stream: norm.weight has that many */
    uint64_t query, key; /* of all heads together; key: the same for values */
    uint64_t vocabulary;
    bool proved; /* an extent that is cut was known, and so is the number of ranks */
};

/* The model's sizes by params.json in st, if there is one, and by the extent of norm.weight.
 * Errors: ZF_E_FORMAT no sound JSON, or it contradicts norm.weight; of the store. */
bool zf_llama_width_read(struct zf_store *st, uint64_t norm, const struct zf_limits *lim,
                         struct zf_llama_width *out, struct zf_err *err) ZF_CHECKED;

/* The rule for a parameter, whose shards are all of one shape.
 * Errors: ZF_E_UNSUPPORTED no parameter of Llama; ZF_E_FORMAT its shards do not add up to the widths. */
bool zf_llama_cut(struct zf_llama_width *w, const struct zf_tree_tensor *t, struct zf_cut_rule *out,
                  struct zf_err *err) ZF_CHECKED;

/* b holds consolidated.00.pth of st, and there is no other: it must be all of the model, as far as params.json tells.
 * Errors: ZF_E_FORMAT others are missing, noted in a degraded build; of the store. */
bool zf_llama_check_alone(struct zf_store *st, const struct zf_limits *lim, struct zf_build *b,
                          struct zf_err *err) ZF_CHECKED;

#endif
