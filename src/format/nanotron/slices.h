/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a tensor a tensor-parallel rank of nanotron has, as the header of its file says:
 *   unsharded_shape            "(48, 16)"; written with NumPy 2: "(np.int64(48), 16)"
 *   local_global_slices_pairs  "0,8,None|None,None,None#16,24,None|None,None,None;…": start, stop and step of each
 *                              dimension of the rank's tensor # those of the whole one; several pairs for fused qkv
 * Source: nanotron/serialize/metadata.py, TensorMetadata (0.4, CHECKPOINT_VERSION 1.2). */
#ifndef NANOTRON_SLICES_H
#define NANOTRON_SLICES_H

#include <zf/codec/safetensors.h>
#include <zf/model/build.h>

/* A box of the whole tensor. */
struct nanotron_slice {
    const uint64_t *start, *size; /* [ndim] elements */
    uint64_t at, n; /* elements: where the rank's tensor has it, in C order, and how many */
};

/* A part of a tensor, as one rank has it. */
struct nanotron_part {
    uint32_t n;
    const struct nanotron_slice *slice; /* [n] one behind the other */
    uint64_t elems;                     /* of the rank's tensor */
};

/* Reads both texts of the header of a file with one tensor; without them it is the whole tensor.  *whole: its type.
 * Errors: ZF_E_FORMAT; ZF_E_UNSUPPORTED steps, slices that are not rows one behind the other; of the arena. */
bool slices_read_part(const struct zf_st_header *h, struct zf_arena *a, struct zf_type *whole,
                      struct nanotron_part *out, struct zf_err *err) ZF_CHECKED;

/* Elements [first, end) of the rank's tensor are at src's byte off, packed: puts them into the whole one. */
bool slices_put(const struct nanotron_part *p, struct zf_draft *whole, uint64_t first, uint64_t end,
                struct zf_source *src, uint64_t off, struct zf_err *err) ZF_CHECKED;

#endif
