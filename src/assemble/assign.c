/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/assign.h>

#include <inttypes.h>
#include <stdlib.h>

static bool assign_ask(struct zf_assign *a, uint32_t g, uint32_t item, uint32_t candidate,
                       bool *yes, struct zf_err *err)
{
    *yes = false;
    if (a->used[candidate])
        return true;
    if (a->asked++ == a->most) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "the names of the masters are still unproven after %" PRIu64 " comparisons",
                       a->most);
    }
    return a->fit(a->ctx, g, item, candidate, yes, err);
}

/* Assigns the items of a group, in order, to the first (or last) candidates that they fit; *done: the
 * number of items assigned. */
static bool assign_in_order(struct zf_assign *a, uint32_t g, bool last, uint32_t *to,
                            uint32_t *done, struct zf_err *err)
{
    uint32_t n = a->group[g].n, k = 0;

    for (*done = 0; *done < n; ++*done) {
        uint32_t item = last ? n - 1 - *done : *done;
        bool yes = false;

        for (; !yes && k < a->n_candidates; k++) {
            to[item] = last ? a->n_candidates - 1 - k : k;
            if (!assign_ask(a, g, item, to[item], &yes, err))
                return false;
        }
        if (!yes)
            return true;
    }
    return true;
}

static void assign_take(struct zf_assign *a, uint32_t g)
{
    for (uint32_t i = 0; i < a->group[g].n; i++)
        a->used[a->group[g].to[i]] = true;
    a->group[g].settled = true;
}

static bool assign_group(struct zf_assign *a, uint32_t g, bool *none, struct zf_err *err)
{
    struct zf_assign_group *group = &a->group[g];
    zf_auto(mem) uint32_t *last = calloc(group->n + (size_t)1, sizeof *last);
    uint32_t done;

    if (!last)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    if (!assign_in_order(a, g, false, group->to, &done, err))
        return false;
    *none = done < group->n;
    if (*none) {
        a->open.group = g;
        a->open.item = done;
        a->open.none = true;
        return true;
    }
    if (!assign_in_order(a, g, true, last, &done, err))
        return false;
    for (uint32_t i = 0; i < group->n; i++) {
        if (group->to[i] != last[i]) {
            a->open.group = g;
            a->open.item = i;
            a->open.two[0] = group->to[i];
            a->open.two[1] = last[i];
            return true;
        }
    }
    assign_take(a, g);
    return true;
}

bool zf_assign_prove(struct zf_assign *a, bool *proven, struct zf_err *err)
{
    uint32_t left = 0, before;

    a->asked = 0;
    a->open.none = false;
    for (uint32_t g = 0; g < a->n_groups; g++)
        left += !a->group[g].settled;
    do { /* candidates taken by one group are no longer open to the others */
        before = left;
        for (uint32_t g = 0; g < a->n_groups; g++) {
            bool none = false;

            if (a->group[g].settled)
                continue;
            if (!assign_group(a, g, &none, err))
                return false;
            if (none) {
                *proven = false;
                return true;
            }
            left -= a->group[g].settled;
        }
    } while (left > 0 && left < before);
    *proven = left == 0;
    return true;
}
