/* SPDX-License-Identifier: Apache-2.0 */
#include "apart.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/base/num.h>

bool ds_apart_add(struct ds_apart *a, const struct ds_apart_bytes *at, enum zf_dtype dtype,
                  uint64_t n, struct zf_err *err)
{
    uint64_t bytes, end;
    struct ds_apart_bytes *to;

    if (n == 0 || !at->src || !zf_mul(n, zf_dtype_info(dtype)->bytes, &bytes) ||
        !zf_add(at->off, bytes, &end)) {
        return true; /* what is beyond any file is refused where it is drafted */
    }
    to = zf_vec_push(a, err);
    if (to) {
        *to = *at;
        to->end = end;
    }
    return to != NULL;
}

static int apart_by_bytes(const void *pa, const void *pb)
{
    const struct ds_apart_bytes *a = pa, *b = pb;
    uintptr_t x = (uintptr_t)a->src, y = (uintptr_t)b->src;

    return x != y ? (x > y) - (x < y) : (a->off > b->off) - (a->off < b->off);
}

static const char *apart_text(const struct ds_apart_bytes *b, char out[240])
{
    int what = (int)(b->what.n < 80 ? b->what.n : 80), of = ds_name_shown(b->of);

    if (b->of.p) {
        (void)snprintf(out, 240, "%.*s of \"%.*s\"", what, b->what.p, of, b->of.p);
    } else {
        (void)snprintf(out, 240, "%.*s of group %u", what, b->what.p, b->group);
    }
    return out;
}

bool ds_apart_check(struct ds_apart *a, struct zf_err *err)
{
    if (a->n > 0) {
        qsort(a->at, a->n, sizeof *a->at, apart_by_bytes);
    }
    for (size_t i = 1; i < a->n; i++) {
        const struct ds_apart_bytes *x = &a->at[i - 1], *y = &a->at[i];
        char one[240], two[240];

        if (x->src == y->src && y->off < x->end) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s and %s are the same bytes",
                           apart_text(x, one), apart_text(y, two));
        }
    }
    return true;
}
