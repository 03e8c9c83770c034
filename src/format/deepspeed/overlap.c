/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/base/num.h>

bool ds_overlap_add(struct ds_overlap *a, const struct ds_overlap_bytes *at, enum zf_dtype dtype,
                    uint64_t n, struct zf_err *err)
{
    uint64_t bytes, end;
    struct ds_overlap_bytes *to;

    if (n == 0 || !at->src || !zf_mul(n, zf_dtype_info(dtype)->bytes, &bytes) ||
        !zf_add(at->off, bytes, &end))
        return true; /* an offset beyond 64 bits is refused when it is drafted */
    to = zf_vec_push(a, err);
    if (to) {
        *to = *at;
        to->end = end;
    }
    return to != NULL;
}

static int overlap_by_bytes(const void *pa, const void *pb)
{
    const struct ds_overlap_bytes *a = pa, *b = pb;
    uintptr_t x = (uintptr_t)a->src, y = (uintptr_t)b->src;

    return x != y ? (x > y) - (x < y) : (a->off > b->off) - (a->off < b->off);
}

static const char *overlap_text(const struct ds_overlap_bytes *b, char out[240])
{
    int what = (int)(b->what.n < 80 ? b->what.n : 80), of = ds_name_shown(b->of);

    if (b->of.p)
        (void)snprintf(out, 240, "%.*s of \"%.*s\"", what, b->what.p, of, b->of.p);
    else
        (void)snprintf(out, 240, "%.*s of group %u", what, b->what.p, b->group);
    return out;
}

bool ds_overlap_check(struct ds_overlap *a, struct zf_err *err)
{
    if (a->n > 0)
        qsort(a->at, a->n, sizeof *a->at, overlap_by_bytes);
    for (size_t i = 1; i < a->n; i++) {
        const struct ds_overlap_bytes *x = &a->at[i - 1], *y = &a->at[i];
        char one[240], two[240];

        if (x->src == y->src && y->off < x->end) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s and %s share bytes",
                           overlap_text(x, one), overlap_text(y, two));
        }
    }
    return true;
}
