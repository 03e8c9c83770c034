/* SPDX-License-Identifier: Apache-2.0 */
#include "apart.h"

#include <stdlib.h>

#include <zf/base/num.h>

/* Bytes that a vector of a file takes. */
struct apart {
    const struct ds_flat *flat;
    uint64_t end; /* byte of its source */
    uint32_t group;
    struct ds_name key; /* "" = the masters */
};

static int apart_by_bytes(const void *pa, const void *pb)
{
    const struct apart *a = pa, *b = pb;
    uintptr_t x = (uintptr_t)a->flat->src, y = (uintptr_t)b->flat->src;

    return x != y ? (x > y) - (x < y)
                  : (a->flat->off > b->flat->off) - (a->flat->off < b->flat->off);
}

static void apart_take(struct apart *list, uint32_t *n, const struct ds_flat *f, uint32_t group,
                       struct ds_name key)
{
    uint64_t bytes;

    if (f->n > 0 && zf_mul(f->n, zf_dtype_info(f->dtype)->bytes, &bytes)) {
        list[*n] = (struct apart){.flat = f, .group = group, .key = key};
        *n += zf_add(f->off, bytes, &list[*n].end) ? 1u : 0u;
    }
}

bool ds_apart_check(const struct ds_optim *r, struct zf_err *err)
{
    size_t most = 1;
    uint32_t n = 0;

    for (uint32_t c = 0; c <= r->n_later; c++) {
        const struct ds_part *part = c == 0 ? r->part : r->later[c - 1].part;

        for (uint32_t g = 0; g < r->n_parts; g++) {
            most += 1 + part[g].n_states;
        }
    }
    zf_auto(mem) struct apart *list = calloc(most, sizeof *list);
    for (uint32_t c = 0; list && c <= r->n_later; c++) {
        const struct ds_part *part = c == 0 ? r->part : r->later[c - 1].part;

        for (uint32_t g = 0; g < r->n_parts; g++) {
            apart_take(list, &n, &part[g].master, g, (struct ds_name){"the masters", 11});
            for (uint32_t i = 0; i < part[g].n_states; i++) {
                if (part[g].state[i].kind == ZF_DS_FLAT) {
                    apart_take(list, &n, &part[g].state[i].flat, g, part[g].state[i].key);
                }
            }
        }
    }
    if (!list) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    qsort(list, n, sizeof *list, apart_by_bytes);
    for (uint32_t i = 1; i < n; i++) {
        const struct apart *a = &list[i - 1], *b = &list[i];

        if (a->flat->src == b->flat->src && b->flat->off < a->end) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "%.*s of group %u and %.*s of group %u are the same bytes",
                           (int)(a->key.n < 80 ? a->key.n : 80), a->key.p, a->group,
                           (int)(b->key.n < 80 ? b->key.n : 80), b->key.p, b->group);
        }
    }
    return true;
}
