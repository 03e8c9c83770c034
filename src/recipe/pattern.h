/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of einops (0.8, einops/parsing.py, rearrange), without ellipsis and anonymous axes but 1. */
#ifndef RECIPE_PATTERN_H
#define RECIPE_PATTERN_H

#include <zf/base/arena.h>

/* Axes of one tensor, and names of one pattern. */
#define MAX_AXES 12
#define MAX_NAMES 16

/* "(g m d) c -> g m d c": for each side the axes, and which names each joins. */
struct pattern {
    const char *text;
    uint32_t n_names;
    const char *name[MAX_NAMES];
    struct pattern_side {
        uint32_t n_axes, n;      /* n: names in order */
        uint8_t begin[MAX_AXES]; /* the first name of each axis */
        uint8_t name[MAX_NAMES];
    } left, right;
};

/* Reads text[n]; memory from a.  Errors: ZF_E_FORMAT a name twice on a side, or on one side only; too many. */
bool pattern_parse(struct pattern *p, const char *text, size_t n, struct zf_arena *a,
                   struct zf_err *err) ZF_CHECKED;

/* The name behind the last one of an axis. */
uint32_t pattern_end(const struct pattern_side *s, uint32_t axis);

#endif
