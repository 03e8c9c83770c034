/* SPDX-License-Identifier: Apache-2.0 */
/* Odd numbers of a tensor (NaN, Inf, negative, denormal), counted piece by piece in any order. */
#ifndef VERIFY_VALUES_H
#define VERIFY_VALUES_H

#include <zf/base/dtype.h>

struct values {
    uint64_t n, nans, infs, negative,
        denormal;      /* of halves, where numbers are complex; -0.0 is not negative */
    uint8_t first[16]; /* an element, … */
    bool differ;       /* … and whether another one has other bits */
    bool
        at_known; /* bytes [at, at + one element) are the first with a NaN, an infinity, or a negative one … */
    uint64_t at; /* … where those are wrong */
};

/* Types of which this knows anything. */
bool values_are_floats(enum zf_dtype t);

/* Adds n elements, which begin at byte `at` of their file.  negative: numbers below zero are wrong too. */
void values_add(struct values *v, enum zf_dtype t, const uint8_t *p, size_t n, bool negative,
                uint64_t at);

/* Adds those of `more` to v. */
void values_join(struct values *v, enum zf_dtype t, const struct values *more);

#endif
