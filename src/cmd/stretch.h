/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts tensors into stretches, which threads process; the results are taken in order. */
#ifndef ZF_CMD_STRETCH_H
#define ZF_CMD_STRETCH_H

#include <zf/base/ahead.h>
#include <zf/base/vec.h>

#include "options.h"

/* Bytes of a stretch: small, so that its buffer is reused and stays in the CPU's cache. */
#define STRETCH_BYTES (128u << 10)

struct stretches {
    zf_vec(uint64_t) first; /* number of each tensor's first stretch, counted over all tensors */
    uint64_t n;
};

static inline void zf_auto_stretches(struct stretches *s)
{
    zf_vec_fini(&s->first);
}

/* Adds the next tensor, with n stretches (may be 0). */
bool stretches_add(struct stretches *s, uint64_t n, struct zf_err *err) ZF_CHECKED;

/* The number of the tensor that contains stretch i; *in_out: the stretch's number within it. */
size_t stretches_find(const struct stretches *s, uint64_t i, uint64_t *in_out);

/* Starts -j threads, or one per CPU; make returns malloc'ed results. */
struct zf_ahead *stretches_start(const struct stretches *s, const struct opts *o,
                                 void *(*make)(void *ctx, uint64_t i, struct zf_err *err),
                                 void *ctx, struct zf_err *err) ZF_CHECKED;

#endif
