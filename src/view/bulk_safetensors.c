/* SPDX-License-Identifier: Apache-2.0 */
/* model.safetensors and the shards of hf/: every tensor of the set whose type and name safetensors
 * supports.  Each tied name gets a range of its own, because the format forbids shared ranges and a
 * loader asks for every name. */
#include <stdlib.h>
#include <string.h>

#include <zf/codec/safetensors.h>

#include "hf.h"

/* Size of the largest element type, complex128. */
#define WIDEST 16

struct pick {
    const struct shelf_set *of;
    enum zf_dtype cast;
    uint32_t *index; /* tensor numbers in file order */
    uint32_t n, n_sound;
};

static bool bulk_is_hurt(const struct pick *p, uint32_t i)
{
    const struct zf_tensor *t = &p->of->set->tensor[i];

    return t->lost && !t->filled;
}

/* Chooses tensors with the largest elements first, like the reference writer, so that every tensor is
 * aligned; those of equal size stay in natural order, so no sorting is needed. */
static void bulk_choose_from(struct pick *p, uint32_t lo, uint32_t hi, bool hurt)
{
    for (uint32_t width = WIDEST; width; width /= 2) {
        for (uint32_t i = lo; i < hi; i++)
            if (bulk_is_hurt(p, i) == hurt && hf_holds(p->of, i, p->cast) &&
                zf_dtype_info(shelf_set_dtype(p->of, i, p->cast))->bytes == width)
                p->index[p->n++] = i;
    }
}

/* Puts damaged tensors last: a page of a mapping that contains a lost byte cannot be read, nor can
 * anything else on it. */
static bool bulk_choose(struct pick *p, uint32_t lo, uint32_t hi, struct zf_arena *a,
                        struct zf_err *err)
{
    p->index = zf_arena_get(a, hi - lo, sizeof *p->index, err);
    if (p->index) {
        bulk_choose_from(p, lo, hi, false);
        p->n_sound = p->n;
        bulk_choose_from(p, lo, hi, true);
    }
    return p->index != NULL;
}

/* Pads the header with spaces, which the format allows, so that the damaged tensors start at a page.
 * The header stays a multiple of 8 bytes to align elements: if the size of the intact tensors is not,
 * they end a few bytes into that page. */
static bool bulk_pad(char **head, uint64_t *len, uint64_t sound, struct zf_err *err)
{
    uint64_t n = (bulk_page_end(*len + sound) - sound + 7) / 8 * 8;
    char *grown = realloc(*head, n);

    if (!grown)
        return zf_fail_sys(err, "plan a file");
    memset(grown + *len, ' ', n - *len);
    for (int i = 0; i < 8; i++)
        grown[i] = (char)((n - 8) >> 8 * i);
    *head = grown;
    *len = n;
    return true;
}

static bool bulk_plan(const struct bulk *b, struct bulk_plan *p, struct zf_err *err)
{
    struct pick pick = {.of = b->of, .cast = b->cast};
    const struct hf_shard *shard = b->shard; /* NULL: the whole set */
    uint32_t lo = shard ? shard->lo : 0, hi = shard ? shard->hi : b->of->set->n;
    char *head = NULL;
    uint64_t len;

    if (!bulk_choose(&pick, lo, hi, p->arena, err))
        return false;
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
    if (!e || !zf_st_emit(e, pick.n, "{\"format\":\"pt\"}", &head, &len, err))
        return false;
    /* The undamaged part ends where the first damaged tensor starts. */
    bool ok = (pick.n_sound == pick.n || bulk_pad(&head, &len, e[pick.n_sound].begin - len, err)) &&
              bulk_add_mem(p, head, len, err);
    free(head);
    for (uint32_t k = 0; ok && k < pick.n; k++)
        ok = bulk_add_tensor(p, b->of, pick.index[k], b->cast, err);
    return ok;
}

const struct bulk_kind bulk_safetensors = {.name = "model.safetensors", .plan = bulk_plan};
