/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two arrays of elements of one type, bit by bit, and how far apart their numbers are. */
#ifndef ZF_INSPECT_COMPARE_H
#define ZF_INSPECT_COMPARE_H

#include <zf/base/dtype.h>

/* How elements are compared.  Numbers are equal if |a - b| <= atol + rtol * |b|, as in numpy.isclose; both 0: exactly
 * equal. */
struct zf_comparison {
    enum zf_dtype dtype;
    double rtol, atol;
};

struct zf_difference {
    uint64_t differ; /* elements that are not equal within the tolerance */
    uint64_t
        bits; /* equal elements with different bits: 0.0 and -0.0, two NaN, or within the tolerance */
    uint64_t nans; /* the part of `differ` with NaN on one side only */
    bool far;      /* two numbers differ: the following fields are set */
    uint64_t at;   /* the first element with the largest difference */
    double most;   /* |a - b| there; for complex numbers, of the half with the larger difference */
    uint8_t a[16], b[16];
};

/* Compares n elements.  at: the index of the first one in its tensor. */
void zf_difference_of(struct zf_difference *out, const struct zf_comparison *how, const void *a,
                      const void *b, size_t n, uint64_t at);

/* Adds the difference of the elements that follow; *d begins as {0}. */
void zf_difference_join(struct zf_difference *d, const struct zf_difference *next);

#endif
