/* SPDX-License-Identifier: Apache-2.0 */
/* Names with indices: model.layers.{i}.weight. */
#ifndef RECIPE_NAMES_H
#define RECIPE_NAMES_H

#include <zf/base/out.h>

#define MAX_LOOPS 4

/* The indices of a recipe, and where each stands. */
struct loops {
    uint32_t n;
    struct loop {
        const char *name;
        uint64_t value, end; /* end: how many there are */
        bool open;           /* it may be used */
        bool one;            /* always this value: a name has as many tensors with it as without */
    } at[MAX_LOOPS];
};

/* The bits of the indices that name[n] has.  Errors: ZF_E_FORMAT braces that hold none of them. */
bool names_loops(const struct loops *l, const char *name, size_t n, uint32_t *bits_out,
                 struct zf_err *err) ZF_CHECKED;
/* Replaces them by their values.  False: one is not open, or a sum is negative. */
bool names_fill(const struct loops *l, const char *name, size_t n, struct zf_out *out);

#endif
