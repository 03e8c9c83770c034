/* SPDX-License-Identifier: Apache-2.0 */
/* The names most like one that was not found, for "did you mean ...?". */
#ifndef ZF_CMD_NEAREST_H
#define ZF_CMD_NEAREST_H

#include <stddef.h>

#include <zf/base/auto.h>

#define NEAREST_MAX 3

/* Start with {.want = name}; `want` is borrowed. */
struct nearest {
    const char *want;
    char *name[NEAREST_MAX]; /* owned, best first */
    unsigned cost[NEAREST_MAX];
    unsigned n;
};

/* Offers a candidate; it is copied when it is among the best so far. */
void nearest_offer(struct nearest *near, const char *name);

/* "; did you mean a, b or c?", or "" when nothing is alike.  Returns out. */
const char *nearest_text(const struct nearest *near, char *out, size_t n);

void nearest_fini(struct nearest *near);
static inline void zf_auto_nearest(struct nearest *near)
{
    nearest_fini(near);
}

#endif
