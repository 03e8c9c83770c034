/* SPDX-License-Identifier: Apache-2.0 */
/* mcore_data: what Megatron adds to the metadata for its flattened optimizer tensors (core 0.8 … 0.15).
 * Every rank holds a range of the elements of its local box.  A tensor of shape G that is cut into a
 * grid of F boxes of shape L = G / F is stored as if it had the shape (F…, product of L), and only
 * mcore_data contains G.
 * Source: megatron/core/dist_checkpointing/strategies/torch.py, mcore_to_pyt_state_dict and
 * metadata.mcore_data (core 0.8, 0.11, 0.15). */
#ifndef DCP_MCORE_DATA_H
#define DCP_MCORE_DATA_H

#include "metadata.h"

/* Reads the dict (NULL: there is none) into the keys' `whole`.  Errors: ZF_E_FORMAT a shape does not fit
 * the stored one. */
bool dcp_take_mcore(struct dcp_reading *r, const struct zf_pv *dict, struct zf_err *err) ZF_CHECKED;

/* The box of the tensor with shape `whole` that a chunk is in.  start[n]: the chunk's cell in grid[n], the
 * stored shape without its last dimension. */
void dcp_flat_box(uint32_t n, const uint64_t *grid, const uint64_t *whole, const uint64_t *start,
                  uint64_t *box, uint64_t *size);

#endif
