/* SPDX-License-Identifier: Apache-2.0 */
/* Smallest, largest, mean and deviation of a tensor's numbers.  Sums are taken over blocks of ZF_STATS_BLOCK elements
 * in a fixed order, so that the same numbers give the same result, whatever shards or threads they come from. */
#ifndef ZF_INSPECT_STATS_H
#define ZF_INSPECT_STATS_H

#include <zf/base/dtype.h>

#define ZF_STATS_BLOCK 4096u

struct zf_stats {
    uint64_t n;                 /* elements */
    uint64_t zeros, nans, infs; /* of them; 0.0 and -0.0 are zeros */
    uint64_t finite;            /* elements that the rest is about */
    uint8_t min[8], max[8];     /* elements of the tensor's type; if finite > 0 */
    double mean;
    double squares; /* sum of the squared differences from the mean */
};

/* Has the type numbers with an order?  Not complex, packed quantized and bit types: of those only zeros, NaN and
 * infinities are counted (bit types: nothing). */
bool zf_stats_ordered(enum zf_dtype t);

/* Of n elements at p, the first of which is at a multiple of ZF_STATS_BLOCK in its tensor. */
void zf_stats_of(struct zf_stats *out, enum zf_dtype t, const void *p, size_t n);

/* Adds the stretch that follows; *s begins as {0}. */
void zf_stats_join(struct zf_stats *s, enum zf_dtype t, const struct zf_stats *next);

/* Standard deviation of the finite numbers (divided by their number, as numpy does); 0 for none. */
double zf_stats_std(const struct zf_stats *s);

#endif
