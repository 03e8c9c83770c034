/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors whose items are several tensors: quantised ones, sparse ones, subclasses such as torchao's.
 * .metadata describes them like plain ones. */
#ifndef DCP_COMPOSED_H
#define DCP_COMPOSED_H

#include "placing.h"

/* How many bytes torch.save adds to a plain tensor, as far as was seen. */
struct dcp_usual {
    uint64_t least, most;
    uint64_t n_looks; /* items that had to be opened */
};
/* 683 … 1,636 were seen (torch 1.13 … 2.14); 29 KB with storage_alignment 4096, which is learnt. */
#define ZF_DCP_USUAL ((struct dcp_usual){.least = 600, .most = 1800})

/* Opens those items of a file, order [n], whose length does not fit a plain tensor, and marks the keys
 * of those that are composed.  Errors: of opening them; ZF_E_FORMAT a tensor of no elements has data. */
bool dcp_composed_find(struct dcp_placing *p, const uint32_t *order, uint64_t n,
                       struct dcp_usual *usual, struct zf_err *err) ZF_CHECKED;

/* Adds the parts of all composed tensors, as <name>.<part>; all parts of one, or none.
 * order: room for chunk.n numbers.
 * Errors: ZF_E_UNSUPPORTED the chunks of one cannot be joined part by part. */
bool dcp_composed_put(struct dcp_placing *p, uint32_t *order, struct zf_err *err) ZF_CHECKED;

#endif
