/* SPDX-License-Identifier: Apache-2.0 */
/* The same numbers in every run (xorshift64), so that a layout that failed can be looked at. */
#ifndef SUPPORT_RANDOM_H
#define SUPPORT_RANDOM_H

#include <stdlib.h>

#include <zf/source/source.h>

#include "unit.h"

static uint64_t random_seed = 1;

/* 0 ... n-1 */
static inline uint64_t random_below(uint64_t n)
{
    random_seed ^= random_seed << 13;
    random_seed ^= random_seed >> 7;
    random_seed ^= random_seed << 17;
    return (random_seed >> 11) % n;
}

/* A source of n such bytes. */
static inline struct zf_source *random_source(uint64_t n)
{
    struct zf_err err;
    unsigned char *p = malloc(n);

    assert_non_null(p);
    for (uint64_t i = 0; i < n; i++)
        p[i] = (unsigned char)random_below(256);
    struct zf_source *s = zf_mem_new("rank0.pt", p, n, true, &err);
    assert_ok(s, &err);
    return s;
}

#endif
