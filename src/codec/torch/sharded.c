/* SPDX-License-Identifier: Apache-2.0 */
/* ShardedTensor: the boxes of all ranks' shards, and the tensors of this rank.
 * Source: torch/distributed/_shard/sharded_tensor (1.11 … 2.14). */
#include <zf/codec/dtensor.h>

#include <string.h>

#include <zf/base/num.h>

#include "file.h"

/* Reads a ShardMetadata: shard_offsets, shard_sizes, placement (a _remote_device, or its str
 * "rank:1/cuda:1"). */
static bool sharded_load_box(struct zf_torch *t, const struct zf_pv *v,
                             const struct zf_sharded *whole, struct zf_shard *out,
                             struct zf_err *err)
{
    uint64_t *off, *size, n_text = 0;
    uint32_t n_off, n_size;
    const struct zf_pv *where = zf_pv_attr(v, "placement");
    const char *text = zf_pv_text(where, &n_text);

    if (!torch_dims(t, zf_pv_attr(v, "shard_offsets"), "shard offsets", &n_off, &off, err) ||
        !torch_dims(t, zf_pv_attr(v, "shard_sizes"), "shard sizes", &n_size, &size, err))
        return false;
    bool ok = n_off == whole->ndim && n_size == whole->ndim;

    for (uint32_t d = 0; ok && d < whole->ndim; d++)
        ok = zf_within(off[d], size[d], whole->shape[d]);
    if (!ok)
        return torch_bad(t, err, ZF_E_FORMAT, "a shard that does not lie inside its tensor");
    out->off = off;
    out->size = size;
    out->rank = -1;
    if (text && strncmp(text, "rank:", 5) == 0)
        out->rank = strtoll(text + 5, NULL, 10);
    else if (!zf_pv_int(zf_pv_attr(where, "_rank"), &out->rank))
        out->rank = -1;
    return true;
}

static bool sharded_load_all(struct zf_torch *t, const struct zf_pv *meta, struct zf_sharded *out,
                             struct zf_err *err)
{
    const struct zf_pv *shards = zf_pv_attr(meta, "shards_metadata");
    uint64_t n = zf_pv_len(shards);
    struct zf_shard *all = zf_arena_get(t->arena, n, sizeof *all, err);

    if (!all)
        return false;
    if (!zf_pv_is_seq(shards))
        return torch_bad(t, err, ZF_E_FORMAT, "a ShardedTensor without a list of shards");
    for (uint64_t i = 0; i < n; i++)
        if (!sharded_load_box(t, zf_pv_item(shards, i), out, &all[i], err))
            return false;
    out->n_all = n;
    out->all = all;
    return true;
}

static bool sharded_load_local(struct zf_torch *t, const struct zf_pv *shards,
                               struct zf_sharded *out, struct zf_err *err)
{
    uint64_t n = zf_pv_len(shards);
    struct zf_shard *local = zf_arena_get(t->arena, n, sizeof *local, err);

    if (!local)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        const struct zf_pv *v = zf_pv_item(shards, i);

        local[i].tensor = zf_pv_attr(v, "tensor");
        if (!local[i].tensor)
            return torch_bad(t, err, ZF_E_FORMAT, "a shard without a tensor");
        if (!sharded_load_box(t, zf_pv_attr(v, "metadata"), out, &local[i], err))
            return false;
    }
    out->n_local = n;
    out->local = local;
    return true;
}

/* Reads the dtype: an argument of the wrapper, or from TensorProperties, whose state is a dict, or a
 * tuple that begins with the dtype. */
static bool sharded_load_dtype(struct zf_torch *t, const struct torch_form *f,
                               const struct zf_pv *meta, struct zf_sharded *out, struct zf_err *err)
{
    const struct zf_pv *props = zf_pv_attr(meta, "tensor_properties");
    const struct zf_pv *dtype = f->args ? zf_pv_item(f->args, 1) : zf_pv_attr(props, "dtype");

    dtype = dtype ? dtype : zf_pv_item(zf_pv_state(props), 0);
    return torch_dtype(t, dtype, &out->dtype, err);
}

bool zf_torch_sharded(struct zf_torch *t, const struct zf_pv *v, struct zf_sharded *out,
                      struct zf_err *err)
{
    struct torch_form f = torch_form_of(t, v);
    const struct zf_pv *meta = zf_pv_item(f.state, 1), *group = zf_pv_item(f.state, 2);
    uint64_t *shape, bytes;

    *out = (struct zf_sharded){.rank = -1, .world = -1};
    if (f.id != ZF_FORM_SHARDED)
        return torch_bad(t, err, ZF_E_UNSUPPORTED, "a value that is not a ShardedTensor");
    if (zf_pv_len(f.state) < 4 || !meta) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "a ShardedTensor without its shards and their metadata");
    }
    if (!sharded_load_dtype(t, &f, meta, out, err) ||
        !torch_dims(t, zf_pv_attr(meta, "size"), "shape", &out->ndim, &shape, err))
        return false;
    if (!zf_dtype_size(out->dtype, out->ndim, shape, &bytes) || bytes > INT64_MAX) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "the shape of a ShardedTensor is too large for any file");
    }
    out->shape = shape;
    (void)zf_pv_int(zf_pv_attr(group, "global_rank"), &out->rank);
    (void)zf_pv_int(zf_pv_attr(group, "global_world_size"), &out->world);
    return sharded_load_all(t, meta, out, err) &&
           sharded_load_local(t, zf_pv_item(f.state, 0), out, err);
}
