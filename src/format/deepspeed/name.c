/* SPDX-License-Identifier: Apache-2.0 */
/* Names in a checkpoint: any bytes, of any length. */
#include "steps.h"

#include <stdlib.h>
#include <string.h>

bool ds_name_of(struct zf_arena *a, const struct zf_pv *v, const char *what, struct ds_name *out,
                struct zf_err *err)
{
    uint64_t n;
    const char *p = zf_pv_kind(v) == ZF_PV_STR ? zf_pv_text(v, &n) : NULL;

    if (!p || n > UINT32_MAX)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s holds a name that is not a string", what);
    out->p = zf_arena_str(a, p, n, err);
    out->n = (uint32_t)n;
    return out->p != NULL;
}

struct ds_name ds_take_name(const struct zf_take *x)
{
    uint64_t n;
    const char *p = zf_take_text(x, &n);
    char *copy = zf_take_must(x, n <= UINT32_MAX, "it is too long for a name")
                     ? zf_take_room(x->t, n + 1, 1)
                     : NULL;

    return copy ? (struct ds_name){memcpy(copy, p, n), (uint32_t)n} : (struct ds_name){"", 0};
}

struct ds_name ds_name_join(struct zf_arena *a, struct ds_name x, struct ds_name y,
                            struct zf_err *err)
{
    char *p = zf_arena_get(a, x.n + y.n + 1ull, 1, err);

    if (p) {
        memcpy(p, x.p, x.n);
        memcpy(p + x.n, y.p, y.n);
    }
    return (struct ds_name){p, x.n + y.n};
}

bool ds_name_eq(struct ds_name a, struct ds_name b)
{
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

int ds_name_cmp(struct ds_name a, struct ds_name b)
{
    int c = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);

    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static int name_order(const void *a, const void *b)
{
    return ds_name_cmp(*(const struct ds_name *)a, *(const struct ds_name *)b);
}

void ds_name_sort(struct ds_name *list, uint32_t n)
{
    if (n > 1)
        qsort(list, n, sizeof *list, name_order);
}

bool ds_name_listed(const struct ds_name *sorted, uint32_t n, struct ds_name name)
{
    return n > 0 && bsearch(&name, sorted, n, sizeof *sorted, name_order) != NULL;
}
