/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron's flattened optimizer tensors (core 0.8 … 0.15): every rank holds a range of its
 * flattened local box.  A tensor of shape G cut into a grid of F boxes of shape L = G / F is stored
 * as shape (F…, product of L), and only mcore_data tells G. Source:
 * megatron/core/dist_checkpointing/strategies/torch.py, mcore_to_pyt_state_dict and
 * metadata.mcore_data (core 0.8, 0.11, 0.15). */
#ifndef FORMAT_DCP_FLAT_H
#define FORMAT_DCP_FLAT_H

#include "metadata.h"

/* Gives a chunk of such a tensor to its draft: the few boxes that a range of elements is made of.
 * start, size: of the chunk as stored.  lost: NULL, or why the bytes are lost. */
bool zf_dcp_flat_put(const struct zf_dcp_key *key, struct zf_draft *draft, const uint64_t *start,
                     const uint64_t *size, struct zf_from from, const struct zf_lost *lost,
                     struct zf_err *err) ZF_CHECKED;

#endif
