/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the part of a DTensor that a rank holds.  Source: torch/distributed/tensor/placement_types.py (2.6
 * … 2.14), and saves of FSDP2, tensor parallel and both, compared with the whole tensors. */
#include "join_box.h"

#include <inttypes.h>

#include <zf/base/num.h>

/* No real mesh has more ranges in one dimension. */
#define MAX_RANGES 65536

/* Part `coord` of `size` parts of a range, as torch.chunk cuts it: all as long as the first, the last
 * ones shorter or empty. */
static struct range ranges_chunk(struct range r, uint64_t size, uint64_t coord)
{
    uint64_t len = r.hi - r.lo;
    uint64_t each = len / size + (len % size != 0), lo = 0, hi = 0;

    if (!zf_mul(each, coord, &lo) || lo > len)
        lo = len;
    hi = len - lo < each ? len : lo + each;
    return (struct range){.lo = r.lo + lo, .hi = r.lo + hi};
}

static void ranges_cut(struct dim_ranges *dim, const struct zf_mesh_axis *axis)
{
    for (uint64_t i = 0; i < dim->n; i++)
        dim->range[i] = ranges_chunk(dim->range[i], axis->size, axis->coord);
}

/* Cuts every range into groups first, and then each group as usual. */
static bool ranges_cut_groups(struct dim_ranges *dim, const struct zf_mesh_axis *axis,
                              uint64_t groups, struct zf_arena *a, struct zf_err *err)
{
    uint64_t n;

    if (!zf_mul(dim->n, groups, &n) || n > MAX_RANGES) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "a strided placement gives a rank more than %d pieces", MAX_RANGES);
    }
    struct range *more = zf_arena_get(a, n, sizeof *more, err);
    if (!more)
        return false;
    for (uint64_t i = 0; i < dim->n; i++) {
        for (uint64_t g = 0; g < groups; g++) {
            more[i * groups + g] =
                ranges_chunk(ranges_chunk(dim->range[i], groups, g), axis->size, axis->coord);
        }
    }
    dim->range = more;
    dim->n = n;
    return true;
}

/* The next strided axis of dimension d after `last`, in the order in which they cut: the finest first. */
static const struct zf_mesh_axis *ranges_next_strided(const struct zf_dtensor *dt, uint32_t d,
                                                      const struct zf_mesh_axis *last)
{
    const struct zf_mesh_axis *best = NULL;

    for (uint32_t i = 0; i < dt->n_axes; i++) {
        const struct zf_mesh_axis *x = &dt->axis[i];
        bool after = !last || x->split_factor > last->split_factor ||
                     (x->split_factor == last->split_factor && x > last);

        if (x->place == ZF_PLACEMENT_STRIDED && x->dim == d && after &&
            (!best || x->split_factor < best->split_factor))
            best = x;
    }
    return best;
}

static bool ranges_cut_dim(const struct zf_dtensor *dt, uint32_t d, struct zf_arena *a,
                           struct dim_ranges *dim, struct zf_err *err)
{
    uint64_t parts = 1;

    for (uint32_t i = 0; i < dt->n_axes; i++) {
        const struct zf_mesh_axis *x = &dt->axis[i];

        if (x->place == ZF_PLACEMENT_SHARD && x->dim == d) {
            ranges_cut(dim, x);
            if (!zf_mul(parts, x->size, &parts))
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the mesh has more than 2^64 ranks");
        }
    }
    for (const struct zf_mesh_axis *x = NULL; (x = ranges_next_strided(dt, d, x));) {
        uint64_t groups = x->split_factor > parts ? x->split_factor / parts : 1;

        if (x->split_factor > parts && x->split_factor % parts != 0) {
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                           "a strided placement has the split factor %" PRIu64 ", but %" PRIu64
                           " parts",
                           x->split_factor, parts);
        }
        if (!ranges_cut_groups(dim, x, groups, a, err))
            return false;
        if (!zf_mul(parts, x->size, &parts))
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the mesh has more than 2^64 ranks");
    }
    return true;
}

bool ranges_dims(const struct zf_dtensor *dt, struct zf_arena *a, struct dim_ranges *dim,
                 struct zf_err *err)
{
    for (uint32_t i = 0; i < dt->n_axes; i++) {
        if (dt->axis[i].place == ZF_PLACEMENT_PARTIAL) {
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                           "each rank holds a summand (Partial), not a part of the tensor");
        }
        if (dt->axis[i].size == 0) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "axis %" PRIu32 " of the mesh has no ranks", i);
        }
    }
    for (uint32_t d = 0; d < dt->ndim; d++) {
        dim[d].range = zf_arena_get(a, 1, sizeof *dim[d].range, err);
        if (!dim[d].range)
            return false;
        dim[d].range[0] = (struct range){.lo = 0, .hi = dt->shape[d]};
        dim[d].n = 1;
        if (!ranges_cut_dim(dt, d, a, &dim[d], err))
            return false;
        dim[d].total = 0;
        for (uint64_t i = 0; i < dim[d].n; i++)
            dim[d].total += dim[d].range[i].hi - dim[d].range[i].lo;
    }
    return true;
}
