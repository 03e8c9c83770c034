/* SPDX-License-Identifier: Apache-2.0 */
/* ds_autoep_layers: one entry per layer.  affine_maps.params[name] has the shape of the full tensor
 * and, for each expert-parallel rank, the elements of it (`source`: offset, strides) that are in the
 * shard (`dest`); expert_placement.ranks lists the experts of each rank, and must agree.
 * In releases without the maps, each rank has the next num_local_experts experts.
 * Source: deepspeed/moe/ (AutoEP), runtime/engine.py, 0.19.2 … 0.19.8. */
#include "tp_info.h"

#include <stdlib.h>

#define AUTOEP_RANKS 65536 /* most expert-parallel ranks */

/* Is the shard a contiguous range of whole experts? */
static bool autoep_is_cut(const struct zf_cut *cut, const struct zf_cut_part *part)
{
    const struct zf_cut_box *box = part->box;
    bool yes = cut->ndim > 0 && part->n == 1;

    for (uint32_t d = 1; yes && d < cut->ndim; d++)
        yes = box->in_whole[d] == 0 && box->size[d] == cut->shape[d];
    return yes;
}

/* Checks that expert_placement lists the same experts per rank as the affine map. */
static void autoep_check_placement(const struct zf_take *layer, const struct ds_fused *f)
{
    const struct zf_take placement = zf_take_key(layer, "expert_placement");
    const struct zf_take ranks = zf_take_key(&placement, "ranks");

    for (uint64_t i = 0; i < zf_pv_len(ranks.v); i++) {
        const struct zf_take one = zf_take_item(&ranks, i);
        const struct zf_pv *experts = zf_pv_get(one.v, "experts");
        uint64_t e, id;
        bool same =
            zf_pv_u64(zf_pv_get(one.v, "rank"), &e) && e < f->n_ep && zf_pv_len(experts) == f->n[e];

        for (uint64_t k = 0; same && k < f->n[e]; k++)
            same = zf_pv_u64(zf_pv_item(experts, k), &id) && id == f->first[e] + k;
        (void)zf_take_must(&one, same, "it gives this rank other experts than the affine map");
    }
}

/* Takes affine_maps.params[name]: the ranks, in order, must have consecutive ranges of all experts. */
static void autoep_take_map(const struct zf_take *layer, const struct zf_take *map,
                            struct ds_fused *f)
{
    const struct zf_take ranks = zf_take_key(map, "ranks");
    uint64_t n = zf_take_map(&ranks), next = 0, *first, *count;
    struct tp_affine affine;

    (void)zf_take_must(&ranks, n > 0 && n <= AUTOEP_RANKS, "it has %llu ranks",
                       (unsigned long long)n);
    affine_take(map, (uint32_t)n, &affine);
    first = zf_take_room(map->t, n, sizeof *first);
    count = zf_take_room(map->t, n, sizeof *count);
    for (uint64_t e = 0; e < n && !map->t->failed; e++) {
        const struct zf_take rank = zf_take_id(&ranks, e);
        const struct zf_cut_part *part = &affine.cut.part[e];

        if (zf_take_can(&rank, autoep_is_cut(&affine.cut, part),
                        "expert tensors are read only if each rank holds consecutive experts")) {
            first[e] = *part->box->in_whole;
            count[e] = *part->box->size;
            (void)zf_take_must(&rank, first[e] == next, "it begins with expert %llu, expected %llu",
                               (unsigned long long)first[e], (unsigned long long)next);
            next += count[e];
        }
    }
    if (!map->t->failed &&
        zf_take_must(map, next == *affine.cut.shape, "it covers %llu of %llu experts",
                     (unsigned long long)next, (unsigned long long)*affine.cut.shape)) {
        f->ndim = affine.cut.ndim;
        f->shape = affine.cut.shape;
        f->n_ep = (uint32_t)n;
        f->first = first;
        f->n = count;
        autoep_check_placement(layer, f);
    }
}

/* Takes a layer of a release without affine maps. */
static void autoep_take_plain(const struct zf_take *layer, struct ds_fused *f)
{
    const struct zf_take size = zf_take_key(layer, "ep_size");
    const struct zf_take local = zf_take_key(layer, "num_local_experts");
    uint64_t n_ep = zf_take_u64(&size), n = zf_take_u64(&local), *first, *count;

    (void)zf_take_must(&size, n_ep > 0 && n_ep <= AUTOEP_RANKS, "expected 1 to %d, found %llu",
                       AUTOEP_RANKS, (unsigned long long)n_ep);
    (void)zf_take_must(&local, n <= UINT32_MAX, "%llu are too many", (unsigned long long)n);
    first = zf_take_room(layer->t, n_ep, sizeof *first);
    count = zf_take_room(layer->t, n_ep, sizeof *count);
    for (uint64_t e = 0; e < n_ep && !layer->t->failed; e++) {
        first[e] = e * n;
        count[e] = n;
    }
    f->n_ep = (uint32_t)n_ep;
    f->first = first;
    f->n = count;
}

static int autoep_by_name(const void *a, const void *b)
{
    return ds_name_cmp(((const struct ds_fused *)a)->name, ((const struct ds_fused *)b)->name);
}

/* The number of fused tensors of a layer: one per affine map; without maps w1, w2 and w3. */
static uint64_t autoep_names(const struct zf_take *maps)
{
    return zf_pv_is_map(maps->v) ? zf_pv_len(maps->v) : 3;
}

static void autoep_take_layer(const struct zf_take *layer, struct ds_fused *out, uint32_t *n_out)
{
    const struct zf_take affine = zf_take_key(layer, "affine_maps"),
                         maps = zf_take_key(&affine, "params");
    const struct zf_take prefix = zf_take_key(layer, "expert_key_prefix");
    struct ds_name front = ds_take_name(&prefix);
    uint64_t ep_rank;

    ep_rank = zf_pv_u64(zf_pv_get(layer->v, "ep_rank"), &ep_rank) ? ep_rank : UINT32_MAX;
    for (uint64_t i = 0, n = autoep_names(&maps); i < n && !layer->t->failed; i++) {
        struct ds_fused *f = &out[(*n_out)++];
        struct zf_err err;

        f->ep_rank = ep_rank < UINT32_MAX ? (uint32_t)ep_rank : UINT32_MAX;
        if (zf_pv_is_map(maps.v)) {
            const struct zf_take name = zf_take_name(&maps, i), map = zf_take_item(&maps, i);

            f->name = ds_take_name(&name);
            autoep_take_map(layer, &map, f);
        } else {
            const struct ds_name last = {&".w1\0.w2\0.w3"[4 * i], 3};

            f->name = ds_name_join(layer->t->arena, front, last, &err);
            autoep_take_plain(layer, f);
            if (!f->name.p)
                (void)zf_take_fail(layer, &err);
        }
    }
}

void ds_autoep_take(const struct zf_take *layers, uint64_t most, struct ds_fused **out,
                    uint32_t *n_out)
{
    uint64_t n = 0, n_layers = zf_pv_len(layers->v);

    for (uint64_t i = 0; i < n_layers; i++) {
        const struct zf_take layer = zf_take_item(layers, i),
                             affine = zf_take_key(&layer, "affine_maps");
        const struct zf_take maps = zf_take_key(&affine, "params");

        n += autoep_names(&maps);
    }
    (void)zf_take_most(layers, n, most, ZF_LIMIT_tensors);
    *n_out = 0;
    *out = zf_take_room(layers->t, n, sizeof **out);
    for (uint64_t i = 0; i < n_layers && !layers->t->failed; i++) {
        const struct zf_take layer = zf_take_item(layers, i);

        autoep_take_layer(&layer, *out, n_out);
    }
    if (*n_out > 1)
        qsort(*out, *n_out, sizeof **out, autoep_by_name);
}

const struct ds_fused *ds_autoep_find(const struct ds_fused *fused, uint32_t n, struct ds_name name)
{
    const struct ds_fused key = {.name = name};

    return n > 0 ? bsearch(&key, fused, n, sizeof *fused, autoep_by_name) : NULL;
}
