/* SPDX-License-Identifier: Apache-2.0 */
/* model.safetensors and the shards of hf/: every tensor of the set whose type and name safetensors
 * can tell.  Tied names each get a range of their own, because the format forbids shared ones and a
 * loader asks for every name. */
#include <stdlib.h>
#include <string.h>

#include <zf/codec/safetensors.h>

#include "hf.h"

/* Bytes of the widest element there is, complex128. */
#define WIDEST 16

struct pick {
    const struct shelf_set *of;
    enum zf_dtype cast;
    uint32_t *index; /* tensors in file order */
    uint32_t n;
};

/* Widest elements first, as the reference writer has them, so that every tensor is aligned; natural
 * order among equals, which needs no sorting. */
static bool choose(struct pick *p, uint32_t lo, uint32_t hi, struct zf_arena *a, struct zf_err *err)
{
    p->index = zf_arena_get(a, hi - lo, sizeof *p->index, err);
    for (uint32_t width = WIDEST; p->index && width; width /= 2) {
        for (uint32_t i = lo; i < hi; i++) {
            if (zf_dtype_info(shelf_set_dtype(p->of, i, p->cast))->bytes == width &&
                hf_holds(p->of, i, p->cast)) {
                p->index[p->n++] = i;
            }
        }
    }
    return p->index != NULL;
}

static bool plan(const struct bulk *b, struct bulk_plan *p, struct zf_err *err)
{
    struct pick pick = {.of = b->of, .cast = b->cast};
    const struct hf_shard *shard = b->shard; /* NULL: all of the set */
    uint32_t lo = shard ? shard->lo : 0, hi = shard ? shard->hi : b->of->set->n;
    char *head = NULL;
    uint64_t len;

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
    bool ok = bulk_add_mem(p, head, len, err);
    free(head);
    for (uint32_t k = 0; ok && k < pick.n; k++) {
        ok = bulk_add_tensor(p, b->of, pick.index[k], b->cast, err);
    }
    return ok;
}

const struct bulk_kind bulk_safetensors = {.name = "model.safetensors", .plan = plan};
