/* SPDX-License-Identifier: Apache-2.0 */
/* How the parameters of Llama are cut over tensor-parallel ranks: by their names, proved by the model's
 * width.  Source: llama/model.py of Llama 1 … 3.1 (fairscale's ColumnParallelLinear, RowParallelLinear,
 * ParallelEmbedding, VocabParallelEmbedding); transformers 4.34 … 4.44, convert_llama_weights_to_hf.py. */
#ifndef FORMAT_CONSOLIDATED_LLAMA_H
#define FORMAT_CONSOLIDATED_LLAMA_H

#include <zf/assemble/tree_join.h>
#include <zf/source/store.h>

/* All counts are elements; 0 = not known. */
struct llama_width {
    uint64_t model;      /* of the residual stream: norm.weight has that many */
    uint64_t query, key; /* of all heads together; key: the same for values */
    uint64_t vocabulary;
    bool proved; /* an extent that is cut was known, and so is the number of ranks */
};

/* The model's sizes by params.json in st, if there is one, and by the extent of norm.weight.
 * Errors: ZF_E_FORMAT no sound JSON, or it contradicts norm.weight; of the store. */
bool llama_width_read(struct zf_store *st, uint64_t norm, const struct zf_limits *lim,
                      struct llama_width *out, struct zf_err *err) ZF_CHECKED;

/* The rule for a parameter, whose shards are all of one shape.
 * Errors: ZF_E_UNSUPPORTED no parameter of Llama; ZF_E_FORMAT its shards do not add up to the widths. */
bool llama_cut(struct llama_width *w, const struct zf_tree_tensor *t, struct zf_cut_rule *out,
               struct zf_err *err) ZF_CHECKED;

#endif
