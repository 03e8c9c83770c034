/* SPDX-License-Identifier: Apache-2.0 */
/* Two stretches of elements of one type, bit by bit, and how far apart their numbers are. */
#ifndef ZF_INSPECT_COMPARE_H
#define ZF_INSPECT_COMPARE_H

#include <zf/base/dtype.h>

/* How elements are compared.  Numbers count as equal where |a - b| <= atol + rtol * |b|, as numpy.isclose has it; both 0: only
 * those that compare equal. */
struct zf_comparison {
    enum zf_dtype dtype;
    double rtol, atol;
};

struct zf_difference {
    uint64_t differ; /* elements that are not equal, within the tolerance */
    uint64_t bits; /* equal numbers of other bits: 0.0 and -0.0, two NaN; or within the tolerance */
    uint64_t nans; /* of those that differ: NaN on one side only */
    bool far;      /* the rest is set: a number differs from a number */
    uint64_t at;   /* the first element that is farthest apart */
    double most;   /* |a - b| there, for complex numbers of the half that is farther */
    uint8_t a[16], b[16];
};

/* Of n elements.  at: the number of the first one in its tensor. */
void zf_difference_of(struct zf_difference *out, const struct zf_comparison *how, const void *a,
                      const void *b, size_t n, uint64_t at);

/* Adds that of the elements behind; *d begins as {0}. */
void zf_difference_join(struct zf_difference *d, const struct zf_difference *next);

#endif
