/* SPDX-License-Identifier: Apache-2.0 */
/* The names that are most similar to one that was not found, for "did you mean ...?". */
#ifndef ZF_BASE_NEAREST_H
#define ZF_BASE_NEAREST_H

#include <stddef.h>

#include <zf/base/auto.h>

#define NEAREST_MAX 3

/* Start with {.want = name}; `want` is borrowed. */
struct zf_nearest {
    const char *want;
    char *name[NEAREST_MAX]; /* owned, best first */
    unsigned cost[NEAREST_MAX];
    unsigned n;
};

/* Offers a candidate; it is copied when it is among the best so far. */
void zf_nearest_offer(struct zf_nearest *near, const char *name);

/* "; did you mean a, b or c?", or "" when nothing is alike.  Returns out. */
const char *zf_nearest_text(const struct zf_nearest *near, char *out, size_t n);

void zf_nearest_fini(struct zf_nearest *near);
static inline void zf_auto_nearest(struct zf_nearest *near)
{
    zf_nearest_fini(near);
}

#endif
