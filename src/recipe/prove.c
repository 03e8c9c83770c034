/* SPDX-License-Identifier: Apache-2.0 */
/* Element numbers are written in mixed radix: the strides of all parts are the units, each of which divides the next,
 * like seconds, minutes and hours.  A part is then an interval in each digit, and two parts overlap if their intervals
 * overlap in every digit. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/auto.h>
#include <zf/base/num.h>

#define MAX_DIGITS 48

static const char prove_unclear[] =
    "its parts are cut so differently that zerofs cannot prove that they cover it";

struct scale {
    uint32_t n;
    uint64_t unit[MAX_DIGITS + 1]; /* unit[n] = all */
};

static bool prove_unit(struct scale *s, uint64_t unit)
{
    uint32_t at = 0;

    while (at < s->n && s->unit[at] < unit)
        at++;
    if (at < s->n && s->unit[at] == unit)
        return true;
    if (s->n == MAX_DIGITS || (at > 0 && unit % s->unit[at - 1] != 0) ||
        (at < s->n && s->unit[at] % unit != 0))
        return false;
    memmove(s->unit + at + 1, s->unit + at, (s->n - at) * sizeof *s->unit);
    s->unit[at] = unit;
    s->n++;
    return true;
}

struct digits {
    uint64_t from[MAX_DIGITS], to[MAX_DIGITS];
};

/* Computes a part's interval in each digit. */
static bool prove_digits(const struct scale *s, const struct zf_strided *p, struct digits *out)
{
    uint64_t rest = p->first;

    for (uint32_t i = s->n; i-- > 0;) {
        out->from[i] = rest / s->unit[i];
        out->to[i] = out->from[i] + 1;
        rest %= s->unit[i];
    }
    for (uint32_t d = 0; d < p->nd; d++) {
        uint64_t size = p->size[d], unit = p->stride[d];

        for (uint32_t i = 0; i < s->n && size > 1; i++) {
            if (s->unit[i] != unit)
                continue;
            const uint64_t radix = s->unit[i + 1] / unit;
            const bool over = out->from[i] == 0 && size >= radix && size % radix == 0;
            const uint64_t take = over ? radix : size;

            if (out->from[i] + take > radix || out->to[i] != out->from[i] + 1)
                return false;
            out->to[i] = out->from[i] + take;
            size /= take;
            unit = s->unit[i + 1];
        }
        if (size > 1)
            return false;
    }
    return true;
}

static bool prove_meet(const struct digits *a, const struct digits *b, uint32_t n)
{
    for (uint32_t i = n; i-- > 0;)
        if (a->to[i] <= b->from[i] || b->to[i] <= a->from[i])
            return false;
    return true;
}

static uint64_t prove_count(const struct use *u)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < u->part.nd; d++)
        n *= u->part.size[d];
    return n;
}

static bool prove_scale(struct scale *s, const struct use *use, uint32_t n, uint64_t all,
                        struct zf_err *err)
{
    bool ok = prove_unit(s, 1);

    for (uint32_t i = 0; ok && i < n; i++)
        for (uint32_t d = 0; ok && d < use[i].part.nd; d++)
            ok = use[i].part.size[d] <= 1 || prove_unit(s, use[i].part.stride[d]);
    /* The ends of parts are units, too, if possible. */
    for (uint32_t i = 0; ok && i < n; i++) {
        for (uint32_t d = 0; d < use[i].part.nd; d++) {
            const uint64_t end = use[i].part.size[d] * use[i].part.stride[d];

            if (end > 1 && end < all && all % end == 0)
                (void)prove_unit(s, end);
        }
    }
    s->unit[s->n] = all;
    return (ok && all % s->unit[s->n - 1] == 0) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s", prove_unclear);
}

bool prove_once(const struct use *use, uint32_t n, uint64_t all, uint64_t most, uint32_t *twice_out,
                struct zf_err *err)
{
    struct scale s = {.n = 0};
    uint64_t sum = 0;

    *twice_out = 0;
    if (n > most) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "it is cut into %u parts, more than %llu (limit recipe_parts)", n,
                       (unsigned long long)most);
    }
    for (uint32_t i = 0; i < n; i++)
        sum += prove_count(&use[i]);
    if (sum < all) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "%llu of its %llu elements are not used by any rule",
                       (unsigned long long)(all - sum), (unsigned long long)all);
    }
    if (n == 1 || all == 0)
        return true; /* a single part has no element twice */
    zf_auto(mem) struct digits *at = calloc(n, sizeof *at);
    if (!at)
        return zf_fail_sys(err, "prove a tensor");
    if (!prove_scale(&s, use, n, all, err))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (prove_count(&use[i]) > 0 && !prove_digits(&s, &use[i].part, &at[i]))
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s", prove_unclear);
        for (uint32_t k = 0; k < i; k++) {
            if (prove_count(&use[i]) > 0 && prove_count(&use[k]) > 0 &&
                prove_meet(&at[i], &at[k], s.n)) {
                *twice_out = i;
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "an element of it is used twice");
            }
        }
    }
    return true;
}
