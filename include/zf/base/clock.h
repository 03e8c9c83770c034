/* SPDX-License-Identifier: Apache-2.0 */
/* Times. */
#ifndef ZF_BASE_CLOCK_H
#define ZF_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC, which is never set. */
static inline int64_t zf_clock_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* < 0: a is the earlier one; 0: they are the same; > 0. */
static inline int zf_clock_cmp(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? (a->tv_sec > b->tv_sec) - (a->tv_sec < b->tv_sec)
                                  : (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

#endif
