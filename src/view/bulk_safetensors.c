/* SPDX-License-Identifier: Apache-2.0 */
/* model.safetensors and the shards of hf/: every tensor of the set whose type and name safetensors
 * can tell.  Tied names each get a range of their own, because the format forbids shared ones and a
 * loader asks for every name. */
#include <stdlib.h>
#include <string.h>

#include <zf/codec/safetensors.h>

#include "hf.h"

struct pick {
    const struct shelf_set *of;
    enum zf_dtype cast;
    uint32_t *index; /* tensors in file order */
    uint32_t n;
};

/* The reference writer's order: widest elements first, then by name; so every tensor is aligned. */
static int cmp_entry(const void *a, const void *b, void *ctx)
{
    const struct pick *p = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint32_t wx = zf_dtype_info(shelf_set_dtype(p->of, x, p->cast))->bytes;
    uint32_t wy = zf_dtype_info(shelf_set_dtype(p->of, y, p->cast))->bytes;

    if (wx != wy) {
        return wx > wy ? -1 : 1;
    }
    return strcmp(p->of->set->tensor[x].name, p->of->set->tensor[y].name);
}

static bool choose(struct pick *p, uint32_t lo, uint32_t hi, struct zf_arena *a, struct zf_err *err)
{
    p->index = zf_arena_get(a, hi - lo, sizeof *p->index, err);
    if (!p->index) {
        return false;
    }
    for (uint32_t i = lo; i < hi; i++) {
        if (hf_holds(p->of, i, p->cast)) {
            p->index[p->n++] = i;
        }
    }
    qsort_r(p->index, p->n, sizeof *p->index, cmp_entry, p);
    return true;
}

static bool plan(const struct bulk *b, struct bulk_plan *p, struct zf_err *err)
{
    struct pick pick = {.of = b->of, .cast = b->cast};
    char *head = NULL;
    uint64_t len;

    const struct hf_shard *shard = b->shard; /* NULL: all of the set */
    uint32_t lo = shard ? shard->lo : 0, hi = shard ? shard->hi : b->of->set->n;

    if (!choose(&pick, lo, hi, p->arena, err)) {
        return false;
    }
    struct zf_st_entry *e = zf_arena_get(p->arena, pick.n, sizeof *e, err);
    for (uint32_t k = 0; e && k < pick.n; k++) {
        const struct zf_tensor *t = &b->of->set->tensor[pick.index[k]];

        e[k] = (struct zf_st_entry){
            .name = t->name,
            .name_len = t->name_len,
            .dtype = shelf_set_dtype(b->of, pick.index[k], b->cast),
            .ndim = t->ndim,
            .shape = t->shape,
        };
    }
    if (!e || !zf_st_emit(e, pick.n, "{\"format\":\"pt\"}", &head, &len, err)) {
        return false;
    }
    bool ok = bulk_add_mem(p, head, len, true, err);
    free(head);
    for (uint32_t k = 0; ok && k < pick.n; k++) {
        ok = bulk_add_tensor(p, b->of, pick.index[k], b->cast, err);
    }
    return ok;
}

const struct bulk_kind bulk_safetensors = {.name = "model.safetensors", .plan = plan};
