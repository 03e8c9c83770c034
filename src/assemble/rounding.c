/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/rounding.h>

#include <zf/base/ahead.h>

/* The number of comparisons per batch handed to a thread. */
#define ROUNDING_AT_ONCE 32u

struct rounding_work {
    const struct zf_roundings *r;
    struct zf_rounding_opts o;
};

/* The first comparison of a batch that differs. */
struct rounding_part {
    const struct zf_rounding *bad; /* NULL: none */
    struct zf_mismatch miss;
};

static bool rounding_compare(const struct rounding_work *w, const struct zf_rounding *r,
                             struct rounding_part *out, struct zf_err *err)
{
    if (!zf_values_round_at(r->master, r->weight, r->n, &w->o.sample, &out->miss, err)) {
        if (!w->o.skip_lost || err->code != ZF_E_IO)
            return false;
        zf_err_clear(err);
        out->miss.found = false;
    }
    out->bad = out->miss.found ? r : NULL;
    return true;
}

static void *rounding_make(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct rounding_work *w = ctx;
    size_t from = (size_t)i * ROUNDING_AT_ONCE, end = from + ROUNDING_AT_ONCE;
    zf_auto(mem) struct rounding_part *part = calloc(1, sizeof *part);

    if (!part)
        return zf_null(zf_fail_sys(err, "allocate memory"));
    for (size_t k = from; k < end && k < w->r->n && !part->bad; k++)
        if (!rounding_compare(w, &w->r->at[k], part, err))
            return NULL;
    return zf_give(part);
}

bool zf_roundings_check(const struct zf_roundings *r, struct zf_rounding_opts o,
                        const struct zf_rounding **bad, struct zf_mismatch *miss,
                        struct zf_err *err)
{
    struct rounding_work w = {.r = r, .o = o};
    const uint64_t n = (r->n + ROUNDING_AT_ONCE - 1) / ROUNDING_AT_ONCE;
    zf_auto(ahead) struct zf_ahead *made = zf_ahead_new(
        (struct zf_ahead_work){.make = rounding_make, .drop = free, .ctx = &w, .most = o.most}, n,
        err);

    *bad = NULL;
    *miss = (struct zf_mismatch){.found = false};
    if (!made)
        return false;
    for (uint64_t i = 0; i < n && !*bad; i++) {
        zf_auto(mem) struct rounding_part *part = zf_ahead_take(made, err);

        if (!part)
            return false;
        *bad = part->bad;
        *miss = part->miss;
    }
    return true;
}
