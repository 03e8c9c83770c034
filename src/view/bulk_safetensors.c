/* SPDX-License-Identifier: Apache-2.0 */
/* model.safetensors and the shards of hf/: every tensor of the set whose type and name safetensors
 * can tell.  Tied names each get a range of their own, because the format forbids shared ones and a
 * loader asks for every name. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zf/codec/safetensors.h>

#include "hf.h"

/* Bytes of the widest element there is, complex128. */
#define WIDEST 16

/* The end of the page of a mapping that byte n - 1 is on. */
static uint64_t round_up(uint64_t n)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return (n + page - 1) / page * page;
}

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

/* A header that shares a page of a mapping with a lost byte could not be read, and with it no tensor. */
static bool shares_page(const struct pick *p, uint64_t len)
{
    uint64_t at = len, end = round_up(len);

    for (uint32_t k = 0; k < p->n && at < end; k++) {
        const struct zf_tensor *t = &p->of->set->tensor[p->index[k]];
        uint64_t own = zf_dtype_info(t->dtype)->bytes;
        uint64_t width = zf_dtype_info(shelf_set_dtype(p->of, p->index[k], p->cast))->bytes;
        struct zf_loss loss;

        if (t->lost && !t->filled && zf_map_loss(t->data, 0, &loss) &&
            loss.first / own * width < end - at) {
            return true;
        }
        at += zf_map_size(t->data) / own * width;
    }
    return false;
}

/* Spaces behind the header, which the format allows, up to the next page. */
static bool pad(char **head, uint64_t *len, struct zf_err *err)
{
    uint64_t n = round_up(*len);
    char *grown = realloc(*head, n);

    if (!grown) {
        return zf_fail_sys(err, "plan a file");
    }
    memset(grown + *len, ' ', n - *len);
    for (int i = 0; i < 8; i++) {
        grown[i] = (char)((n - 8) >> 8 * i);
    }
    *head = grown;
    *len = n;
    return true;
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
    bool ok =
        (!shares_page(&pick, len) || pad(&head, &len, err)) && bulk_add_mem(p, head, len, err);
    free(head);
    for (uint32_t k = 0; ok && k < pick.n; k++) {
        ok = bulk_add_tensor(p, b->of, pick.index[k], b->cast, err);
    }
    return ok;
}

const struct bulk_kind bulk_safetensors = {.name = "model.safetensors", .plan = plan};
