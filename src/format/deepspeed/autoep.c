/* SPDX-License-Identifier: Apache-2.0 */
/* ds_autoep_layers: an entry a layer.  affine_maps.params[name] has the shape of the whole and, for
 * each expert-parallel rank, which elements of it (`source`: offset, strides) are which of the
 * shard (`dest`); expert_placement.ranks lists the experts of each rank, and must say the same.
 * Releases without the maps give each rank num_local_experts, in turn.
 * Source: deepspeed/moe/ (AutoEP), runtime/engine.py, 0.19.2 … 0.19.8. */
#include "autoep.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>

#define AUTOEP_RANKS 65536 /* of expert parallelism */
#define AUTOEP_DIMS 8

/* n numbers; NULL (err is set): something else. */
static const uint64_t *autoep_numbers(struct ds_save *ds, const struct zf_pv *v, uint64_t n,
                                      const char *what, struct zf_err *err)
{
    uint64_t *out = zf_arena_get(ds->a, n, sizeof *out, err);

    if (out && (zf_pv_len(v) != n || !zf_torch_extents(v, n, out))) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s is not a list of %llu numbers", what,
                (unsigned long long)n);
        return NULL;
    }
    return out;
}

/* Are these the strides of a packed tensor of that shape? */
static bool autoep_is_packed(const uint64_t *shape, const uint64_t *stride, uint32_t ndim)
{
    uint64_t want = 1;

    for (uint32_t d = ndim; d-- > 0;) {
        if (stride[d] != want || !zf_mul(want, shape[d], &want)) {
            return false;
        }
    }
    return true;
}

/* The elements of [offset, strides] begin at a whole expert: gives the number of that. */
static bool autoep_place(struct ds_save *ds, const struct zf_pv *place, const struct ds_fused *f,
                         const uint64_t *shape, uint64_t *first, bool *yes, struct zf_err *err)
{
    const uint64_t *stride =
        autoep_numbers(ds, zf_pv_item(place, 1), f->ndim, "a place of an affine map", err);
    uint64_t off;

    if (!stride) {
        return false;
    }
    if (!zf_pv_u64(zf_pv_item(place, 0), &off)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "an offset of an affine map is no number");
    }
    *yes = autoep_is_packed(shape, stride, f->ndim) && stride[0] > 0 && off % stride[0] == 0;
    *first = *yes ? off / stride[0] : 0;
    return true;
}

/* ranks[e]: which experts of the whole its shard holds. */
static bool autoep_read_rank(struct ds_save *ds, const struct zf_pv *v, const struct ds_fused *f,
                             uint64_t *first, uint64_t *n, struct zf_err *err)
{
    const struct zf_pv *pieces = zf_pv_get(v, "pieces"), *piece = zf_pv_item(pieces, 0);
    const uint64_t *shard =
        autoep_numbers(ds, zf_pv_get(v, "shard_shape"), f->ndim, "shard_shape", err);
    const uint64_t *shape =
        shard ? autoep_numbers(ds, zf_pv_get(piece, "shape"), f->ndim, "a piece's shape", err)
              : NULL;
    uint64_t to;
    bool from_packed, to_packed;

    if (!shape ||
        !autoep_place(ds, zf_pv_get(piece, "source"), f, f->shape, first, &from_packed, err) ||
        !autoep_place(ds, zf_pv_get(piece, "dest"), f, shard, &to, &to_packed, err)) {
        return false;
    }
    *n = shard[0];
    if (zf_pv_len(pieces) != 1 || !from_packed || !to_packed || to != 0 ||
        memcmp(shape, shard, f->ndim * sizeof *shape) != 0 ||
        memcmp(shape + 1, f->shape + 1, (f->ndim - 1) * sizeof *shape) != 0) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "a tensor of experts that is cut otherwise than between experts that follow "
                       "each other is not supported");
    }
    return zf_within(*first, *n, f->shape[0]) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "its affine map puts %llu experts behind expert %llu of %llu",
                   (unsigned long long)*n, (unsigned long long)*first,
                   (unsigned long long)f->shape[0]);
}

/* expert_placement must list the same experts. */
static bool autoep_check_placement(const struct zf_pv *layer, const struct ds_fused *f,
                                   struct zf_err *err)
{
    const struct zf_pv *ranks = zf_pv_get(zf_pv_get(layer, "expert_placement"), "ranks");

    for (uint64_t i = 0; i < zf_pv_len(ranks); i++) {
        const struct zf_pv *one = zf_pv_item(ranks, i), *experts = zf_pv_get(one, "experts");
        uint64_t e, id;
        bool same =
            zf_pv_u64(zf_pv_get(one, "rank"), &e) && e < f->n_ep && zf_pv_len(experts) == f->n[e];

        for (uint64_t k = 0; same && k < f->n[e]; k++) {
            same = zf_pv_u64(zf_pv_item(experts, k), &id) && id == f->first[e] + k;
        }
        if (!same) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "expert_placement.ranks[%llu] and the affine map do not give that rank "
                           "the same experts",
                           (unsigned long long)i);
        }
    }
    return true;
}

/* The pieces of all ranks must be the whole, each expert once. */
static bool autoep_check_whole(const struct ds_fused *f, struct zf_err *err)
{
    uint64_t next = 0;

    for (uint32_t e = 0; e < f->n_ep; e++) {
        if (f->first[e] != next) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "its affine map has expert-parallel rank %u begin with expert %llu, "
                           "expected %llu",
                           e, (unsigned long long)f->first[e], (unsigned long long)next);
        }
        next += f->n[e];
    }
    return next == f->shape[0] ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its affine map covers %llu of %llu experts",
                   (unsigned long long)next, (unsigned long long)f->shape[0]);
}

/* affine_maps.params[name] */
static bool autoep_read_map(struct ds_save *ds, const struct zf_pv *layer, const struct zf_pv *v,
                            struct ds_fused *f, struct zf_err *err)
{
    const struct zf_pv *shape = zf_pv_get(v, "logical_shape"), *ranks = zf_pv_get(v, "ranks");
    uint64_t dims = zf_pv_len(shape), n = zf_pv_len(ranks), all;
    uint64_t *first = zf_arena_get(ds->a, n, sizeof *first, err);
    uint64_t *count = first ? zf_arena_get(ds->a, n, sizeof *count, err) : NULL;

    if (!count) {
        return false;
    }
    if (dims == 0 || dims > AUTOEP_DIMS || n == 0 || n > AUTOEP_RANKS) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "its affine map has %llu dimensions and %llu ranks",
                       (unsigned long long)dims, (unsigned long long)n);
    }
    f->ndim = (uint32_t)dims;
    f->n_ep = (uint32_t)n;
    f->first = first;
    f->n = count;
    if (!(f->shape = autoep_numbers(ds, shape, dims, "logical_shape", err))) {
        return false;
    }
    if (!zf_elems(f->ndim, f->shape, &all)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its extents multiply beyond 64 bits");
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t e;

        if (!zf_pv_u64(zf_pv_key(ranks, i), &e) || e != i) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the ranks of its affine map are not 0, 1 …");
        }
        if (!autoep_read_rank(ds, zf_pv_val(ranks, i), f, &first[e], &count[e], err)) {
            return false;
        }
    }
    return autoep_check_whole(f, err) && autoep_check_placement(layer, f, err);
}

/* A release without maps. */
static bool autoep_read_plain(struct ds_save *ds, const struct zf_pv *layer, struct ds_fused *f,
                              struct zf_err *err)
{
    uint64_t n_ep, local, *first, *count;

    if (!zf_pv_u64(zf_pv_get(layer, "ep_size"), &n_ep) || n_ep == 0 || n_ep > AUTOEP_RANKS ||
        !zf_pv_u64(zf_pv_get(layer, "num_local_experts"), &local) || local > UINT32_MAX) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "its layer has no ep_size, num_local_experts");
    }
    first = zf_arena_get(ds->a, n_ep, sizeof *first, err);
    count = first ? zf_arena_get(ds->a, n_ep, sizeof *count, err) : NULL;
    for (uint64_t e = 0; count && e < n_ep; e++) {
        first[e] = e * local;
        count[e] = local;
    }
    f->n_ep = (uint32_t)n_ep;
    f->first = first;
    f->n = count;
    return count != NULL;
}

static int autoep_by_name(const void *a, const void *b)
{
    return ds_name_cmp(((const struct ds_fused *)a)->name, ((const struct ds_fused *)b)->name);
}

/* The affine maps of a layer, by name; NULL: it has none. */
static const struct zf_pv *autoep_maps(const struct zf_pv *layer)
{
    const struct zf_pv *maps = zf_pv_get(zf_pv_get(layer, "affine_maps"), "params");

    return zf_pv_is_map(maps) ? maps : NULL;
}

static bool autoep_read_layer(struct ds_save *ds, const struct zf_pv *layer, struct ds_fused *out,
                              uint32_t *n_out, struct zf_err *err)
{
    static const char *const plain[] = {"w1", "w2", "w3"};
    const struct zf_pv *maps = autoep_maps(layer);
    uint64_t n = maps ? zf_pv_len(maps) : 3, ep_rank;
    struct ds_name prefix;

    if (!ds_name_of(ds->a, zf_pv_get(layer, "expert_key_prefix"), "expert_key_prefix", &prefix,
                    err)) {
        return false;
    }
    ep_rank = zf_pv_u64(zf_pv_get(layer, "ep_rank"), &ep_rank) ? ep_rank : UINT32_MAX;
    for (uint64_t i = 0; i < n; i++) {
        struct ds_fused *f = &out[(*n_out)++];
        bool ok;

        f->ep_rank = ep_rank < UINT32_MAX ? (uint32_t)ep_rank : UINT32_MAX;
        if (maps) {
            ok = ds_name_of(ds->a, zf_pv_key(maps, i), "affine_maps", &f->name, err) &&
                 autoep_read_map(ds, layer, zf_pv_val(maps, i), f, err);
        } else {
            const char *p = zf_arena_fmt(ds->a, err, "%.*s.%s", (int)prefix.n, prefix.p, plain[i]);

            f->name = (struct ds_name){p, prefix.n + 3};
            ok = p && autoep_read_plain(ds, layer, f, err);
        }
        if (!ok) {
            return !ds_err_named(err) && f->name.p &&
                   zf_err_in(err, "!ds_autoep_layers[\"%.*s\"]", (int)f->name.n, f->name.p);
        }
    }
    return true;
}

bool ds_autoep_read(struct ds_save *ds, const struct zf_pv *layers, struct ds_fused **out,
                    uint32_t *n_out, struct zf_err *err)
{
    uint64_t n = 0;

    *n_out = 0;
    for (uint64_t i = 0; i < zf_pv_len(layers); i++) {
        const struct zf_pv *maps = autoep_maps(zf_pv_item(layers, i));

        n += maps ? zf_pv_len(maps) : 3;
        if (n > ds->o->lim->tensors) {
            return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                           "ds_autoep_layers has more names than tensors = %llu",
                           (unsigned long long)ds->o->lim->tensors);
        }
    }
    *out = zf_arena_get(ds->a, n, sizeof **out, err);
    for (uint64_t i = 0; *out && i < zf_pv_len(layers); i++) {
        if (!autoep_read_layer(ds, zf_pv_item(layers, i), *out, n_out, err)) {
            return false;
        }
    }
    if (*out && *n_out > 1) {
        qsort(*out, *n_out, sizeof **out, autoep_by_name);
    }
    return *out != NULL;
}

const struct ds_fused *ds_autoep_find(const struct ds_fused *fused, uint32_t n, struct ds_name name)
{
    const struct ds_fused key = {.name = name};

    return n > 0 ? bsearch(&key, fused, n, sizeof *fused, autoep_by_name) : NULL;
}
