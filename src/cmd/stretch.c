/* SPDX-License-Identifier: Apache-2.0 */
#include "stretch.h"

#include <stdlib.h>

#include <zf/base/search.h>

bool stretches_add(struct stretches *s, uint64_t n, struct zf_err *err)
{
    uint64_t *first = zf_vec_push(&s->first, err);

    if (!first)
        return false;
    *first = s->n;
    s->n += n;
    return true;
}

/* Takes the last tensor that begins at or before i, as a tensor without stretches begins where the next one does. */
size_t stretches_find(const struct stretches *s, uint64_t i, uint64_t *in_out)
{
    size_t next;

    ZF_SEARCH(next, s->first.n, s->first.at[next] > i);
    *in_out = i - s->first.at[next - 1];
    return next - 1;
}

struct zf_ahead *stretches_start(const struct stretches *s, const struct opts *o,
                                 void *(*make)(void *ctx, uint64_t i, struct zf_err *err),
                                 void *ctx, struct zf_err *err)
{
    const uint32_t few = opts_jobs(o);
    const struct zf_ahead_work work = {.make = make,
                                       .drop = free,
                                       .ctx = ctx,
                                       .few = few,
                                       .most = few > ZF_AHEAD_FAR ? few : ZF_AHEAD_FAR};

    return zf_ahead_new(work, s->n, err);
}
