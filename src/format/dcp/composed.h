/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint holds beside plain tensors:
 * bytes items, and tensors that are made of others. */
#ifndef FORMAT_DCP_COMPOSED_H
#define FORMAT_DCP_COMPOSED_H

#include "tensors.h"

/* Looks whether the bytes item of chunk c is one whole file, unless many were looked at before: then the
 * first read does.  Errors: of zf_dcp_whole, with the item's key. */
bool zf_dcp_bytes_look(struct zf_dcp_placing *p, struct zf_dcp_chunk *c,
                       struct zf_err *err) ZF_CHECKED;

/* Shows the bytes item of chunk c: its exact bytes as extra/<key>. */
bool zf_dcp_bytes(struct zf_dcp_placing *p, const struct zf_dcp_chunk *c,
                  struct zf_err *err) ZF_CHECKED;

/* How many bytes torch.save adds to a plain tensor, as far as was seen. */
struct zf_dcp_usual {
    uint64_t least, most;
    uint64_t n_looks; /* items that had to be opened */
};
/* 683 … 1,636 were seen (torch 1.13 … 2.14); 29 KB with storage_alignment 4096, which is learnt. */
#define ZF_DCP_USUAL ((struct zf_dcp_usual){.least = 600, .most = 1800})

/* Must the item of data_len bytes be opened to know whether it is a plain tensor?
 * Its length tells. */
bool zf_dcp_is_odd(const struct zf_dcp_chunk *c, enum zf_dtype dtype, uint64_t data_len,
                   const struct zf_dcp_usual *usual);

/* Opens the item of chunk c: is it a tensor made of several others?
 * If not, *usual learns its length. */
bool zf_dcp_is_composed(struct zf_dcp_placing *p, const struct zf_dcp_chunk *c, uint64_t data_len,
                        struct zf_dcp_usual *usual, bool *out, struct zf_err *err) ZF_CHECKED;

/* Opens the item of chunk c, which has no elements: holds it none either?  Tensors made of others are not
 * asked.  Errors: ZF_E_FORMAT it holds some. */
bool zf_dcp_is_empty(struct zf_dcp_placing *p, const struct zf_dcp_chunk *c,
                     struct zf_dcp_usual *usual, struct zf_err *err) ZF_CHECKED;

/* Adds the parts of a composed tensor as <name>.<part>: chunks [n] are all of its key.
 * Errors: ZF_E_UNSUPPORTED its chunks cannot be joined part by part. */
bool zf_dcp_composed(struct zf_dcp_placing *p, const uint32_t *chunk, uint64_t n,
                     struct zf_err *err) ZF_CHECKED;

#endif
