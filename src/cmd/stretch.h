/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors cut into stretches, which threads read and whose results are taken in their order. */
#ifndef ZF_CMD_STRETCH_H
#define ZF_CMD_STRETCH_H

#include <zf/base/ahead.h>
#include <zf/base/vec.h>

#include "options.h"

/* Bytes of a stretch: few enough that memory for them is reused and stays in a CPU's cache. */
#define STRETCH_BYTES (128u << 10)

struct stretches {
    zf_vec(uint64_t) first; /* stretch of each tensor, counted through all of them */
    uint64_t n;
};

static inline void zf_auto_stretches(struct stretches *s)
{
    zf_vec_fini(&s->first);
}

/* The next tensor has that many stretches, perhaps none. */
bool stretches_add(struct stretches *s, uint64_t n, struct zf_err *err) ZF_CHECKED;

/* The number of the tensor that stretch i is of; *in_out: the stretch, counted in that tensor. */
size_t stretches_find(const struct stretches *s, uint64_t i, uint64_t *in_out);

/* Starts -j threads, or one a CPU; make gives malloc'ed results. */
struct zf_ahead *stretches_start(const struct stretches *s, const struct opts *o,
                                 void *(*make)(void *ctx, uint64_t i, struct zf_err *err),
                                 void *ctx, struct zf_err *err) ZF_CHECKED;

#endif
