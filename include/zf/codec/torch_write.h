/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the pickle of a state dict for torch.load, also with weights_only and mmap: protocol 2, a plain dict of
 * name -> tensor.  Source: torch/_utils.py,
 * torch/_weights_only_unpickler.py (2.13). */
#ifndef ZF_CODEC_TORCH_WRITE_H
#define ZF_CODEC_TORCH_WRITE_H

#include <zf/base/dtype.h>
#include <zf/base/out.h>

struct zf_torch_write {
    const char *name; /* UTF-8 */
    uint32_t name_len;
    enum zf_dtype dtype; /* quantized types are written as their integers */
    uint32_t ndim;
    const uint64_t *shape; /* [ndim] elements; packed C order */
    uint64_t storage;      /* key of the storage "data/<key>"; tied tensors share one */
};

void zf_torch_write_begin(struct zf_out *o);
/* Adds one tensor; its storage has exactly the tensor's size. */
void zf_torch_write_tensor(struct zf_out *o, const struct zf_torch_write *t);
void zf_torch_write_end(struct zf_out *o);

#endif
