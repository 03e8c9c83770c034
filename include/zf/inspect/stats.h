/* SPDX-License-Identifier: Apache-2.0 */
/* Minimum, maximum, mean and standard deviation of a tensor's numbers.  Sums are taken over blocks of ZF_STATS_BLOCK
 * elements in a fixed order, so that the result does not depend on shards or threads. */
#ifndef ZF_INSPECT_STATS_H
#define ZF_INSPECT_STATS_H

#include <zf/base/dtype.h>

#define ZF_STATS_BLOCK 4096u

struct zf_stats {
    uint64_t n;                 /* elements */
    uint64_t zeros, nans, infs; /* number of such elements; 0.0 and -0.0 are zeros */
    uint64_t finite;            /* number of finite elements, to which the rest refers */
    uint8_t min[8], max[8];     /* elements of the tensor's type; if finite > 0 */
    double mean;
    double squares; /* sum of the squared differences from the mean */
};

/* True if the type's numbers are ordered: not complex, packed quantized and bit types, for which only zeros, NaN and
 * infinities are counted (bit types: nothing). */
bool zf_stats_ordered(enum zf_dtype t);

/* Computes the statistics of n elements at p; the index of the first one in its tensor must be a multiple of
 * ZF_STATS_BLOCK. */
void zf_stats_of(struct zf_stats *out, enum zf_dtype t, const void *p, size_t n);

/* Adds the elements that follow; *s begins as {0}. */
void zf_stats_join(struct zf_stats *s, enum zf_dtype t, const struct zf_stats *next);

/* Standard deviation of the finite numbers (divided by their number, as numpy does); 0 for none. */
double zf_stats_std(const struct zf_stats *s);

#endif
