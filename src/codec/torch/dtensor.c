/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's piece of a DTensor.  Source: torch/distributed/tensor/_dtensor_spec.py,
 * placement_types.py, torch/distributed/device_mesh.py (2.2 … 2.15). */
#include <zf/codec/dtensor.h>

#include <string.h>

#include <zf/base/num.h>

#include "file.h"

#define MAX_AXES 64u         /* of a mesh; two or three are usual */
#define MAX_RANKS (1u << 20) /* larger meshes are not listed */

/* The number of ranks along axis i of the mesh: torch 2.14 stores a layout of (nested) shapes,
 * earlier versions a tensor of ranks. */
static bool dtensor_axis_size(struct zf_torch *t, const struct zf_pv *mesh, uint64_t i,
                              uint64_t *out, struct zf_err *err)
{
    const struct zf_pv *axis = zf_pv_item(zf_pv_attr(zf_pv_attr(mesh, "_layout"), "axes"), i);
    uint64_t *dim = NULL, one;
    uint32_t n = 0;

    if (axis) {
        const struct zf_pv *shape = zf_pv_attr(axis, "shape");

        if (zf_pv_u64(shape, &one)) {
            *out = one;
            return one != 0 || torch_bad(t, err, ZF_E_FORMAT, "a device mesh with an empty axis");
        }
        if (!torch_dims(t, shape, "device mesh", &n, &dim, err))
            return false;
        if (!zf_elems(n, dim, out) || *out == 0)
            return torch_bad(t, err, ZF_E_FORMAT, "a device mesh with an empty or endless axis");
        return true;
    }
    struct zf_torch_tensor ranks;
    const struct zf_pv *grid = zf_pv_attr(mesh, "mesh");

    grid = grid ? grid : zf_pv_attr(mesh, "_mesh");
    if (zf_torch_kind(t, grid) == ZF_TORCH_NOT)
        return torch_bad(t, err, ZF_E_FORMAT, "a DTensor whose device mesh has no tensor of ranks");
    if (!zf_torch_tensor(t, grid, &ranks, err))
        return false;
    if (i >= ranks.ndim || ranks.shape[i] == 0) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "a device mesh of %u axes for a DTensor with more placements", ranks.ndim);
    }
    *out = ranks.shape[i];
    return true;
}

static bool dtensor_load_placement(struct zf_torch *t, const struct zf_pv *v, uint32_t ndim,
                                   struct zf_mesh_axis *out, struct zf_err *err)
{
    static const struct {
        const char *class;
        enum zf_placement place;
    } row[] = {
        {"Replicate", ZF_PLACEMENT_REPLICATE},   {"Shard", ZF_PLACEMENT_SHARD},
        {"_StridedShard", ZF_PLACEMENT_STRIDED}, {"Partial", ZF_PLACEMENT_PARTIAL},
        {"_Partial", ZF_PLACEMENT_PARTIAL},
    };
    const char *class = zf_pv_name(v);
    uint64_t dim = 0, split = 1;
    size_t i = 0;

    while (i < sizeof row / sizeof *row && strcmp(row[i].class, class) != 0)
        i++;
    if (i == sizeof row / sizeof *row)
        return torch_bad(t, err, ZF_E_UNSUPPORTED, "a DTensor with the placement \"%.80s\"", class);
    out->place = row[i].place;
    if (out->place == ZF_PLACEMENT_REPLICATE || out->place == ZF_PLACEMENT_PARTIAL)
        return true;
    const struct zf_pv *d = zf_pv_attr(v, "dim"), *f = zf_pv_attr(v, "split_factor");

    d = d ? d : zf_pv_arg(v, 0); /* an argument of the call instead of an attribute */
    if (!zf_pv_u64(d, &dim) || dim >= ndim) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "a DTensor of %u dimensions is cut along a dimension that it lacks", ndim);
    }
    if (out->place == ZF_PLACEMENT_STRIDED && (!zf_pv_u64(f, &split) || split == 0))
        return torch_bad(t, err, ZF_E_FORMAT, "a strided shard without a split factor");
    out->dim = (uint32_t)dim;
    out->split_factor = split;
    return true;
}

static bool dtensor_load_axes(struct zf_torch *t, const struct zf_pv *spec, struct zf_dtensor *out,
                              struct zf_err *err)
{
    const struct zf_pv *mesh = zf_pv_attr(spec, "mesh"), *places = zf_pv_attr(spec, "placements");
    const struct zf_pv *at = zf_pv_attr(mesh, "_coordinate_on_dim");
    uint64_t n = zf_pv_len(places);

    if (!mesh || !zf_pv_is_seq(places) || n > MAX_AXES)
        return torch_bad(t, err, ZF_E_FORMAT, "a DTensor without a device mesh or placements");
    struct zf_mesh_axis *axis = zf_arena_get(t->arena, n, sizeof *axis, err);

    if (!axis)
        return false;
    out->n_axes = (uint32_t)n;
    out->axis = axis;
    out->has_coord = zf_pv_is_seq(at) && zf_pv_len(at) == n;
    for (uint64_t i = 0; i < n; i++) {
        if (!dtensor_axis_size(t, mesh, i, &axis[i].size, err) ||
            !dtensor_load_placement(t, zf_pv_item(places, i), out->ndim, &axis[i], err))
            return false;
        if (out->has_coord &&
            (!zf_pv_u64(zf_pv_item(at, i), &axis[i].coord) || axis[i].coord >= axis[i].size)) {
            return torch_bad(t, err, ZF_E_FORMAT,
                             "a DTensor whose rank is outside its device mesh");
        }
    }
    return true;
}

/* Lists the ranks of the mesh, which are optional: left out if they cannot be read. */
static void dtensor_load_ranks(struct zf_torch *t, const struct zf_pv *mesh, struct zf_dtensor *out)
{
    const struct zf_pv *grid = zf_pv_attr(mesh, "_rank_map");
    struct zf_err ignored;
    uint64_t *rank, n;

    grid = grid ? grid : zf_pv_attr(mesh, "mesh");
    if (zf_torch_kind(t, grid) == ZF_TORCH_DENSE &&
        torch_ints(t, grid, MAX_RANKS, &n, &rank, &ignored)) {
        out->rank = rank;
        out->n_ranks = n;
    }
}

/* Reads the global dtype, shape and strides from the wrapper's args (class, dtype, shape, stride, …),
 * which are there even if the spec has no tensor_meta. */
static bool dtensor_load_global(struct zf_torch *t, const struct torch_form *f,
                                struct zf_dtensor *out, struct zf_err *err)
{
    uint64_t *shape, *stride, bytes;
    uint32_t n;

    if (!torch_dtype(t, zf_pv_item(f->args, 1), &out->dtype, err) ||
        !torch_dims(t, zf_pv_item(f->args, 2), "shape", &out->ndim, &shape, err) ||
        !torch_dims(t, zf_pv_item(f->args, 3), "stride", &n, &stride, err))
        return false;
    if (n != out->ndim || !zf_dtype_size(out->dtype, out->ndim, shape, &bytes) || bytes > INT64_MAX)
        return torch_bad(t, err, ZF_E_FORMAT, "a DTensor with an impossible shape or strides");
    out->shape = shape;
    out->stride = stride;
    return true;
}

bool zf_torch_dtensor(struct zf_torch *t, const struct zf_pv *v, struct zf_dtensor *out,
                      struct zf_err *err)
{
    struct torch_form f = torch_form_of(t, v);

    *out = (struct zf_dtensor){.local = NULL};
    if (f.id != ZF_FORM_DTENSOR)
        return torch_bad(t, err, ZF_E_UNSUPPORTED, "a value that is not a DTensor");
    const struct zf_pv *spec = zf_pv_field(f.state, "_spec");

    out->local = zf_pv_field(f.state, "_local_tensor");
    if (!out->local || !spec)
        return torch_bad(t, err, ZF_E_FORMAT, "a DTensor without its local tensor or its spec");
    if (!dtensor_load_global(t, &f, out, err) || !dtensor_load_axes(t, spec, out, err))
        return false;
    dtensor_load_ranks(t, zf_pv_attr(spec, "mesh"), out);
    return true;
}
