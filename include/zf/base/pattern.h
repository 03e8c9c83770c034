/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions by PCRE2, in the syntax that Python's re and PCRE2 share, on UTF-8.  The cost of a match is
 * bounded for any expression and name. */
#ifndef ZF_BASE_PATTERN_H
#define ZF_BASE_PATTERN_H

#include <zf/base/arena.h>

struct zf_pattern;

enum zf_pattern_where {
    ZF_PATTERN_ANYWHERE, /* as re.search */
    ZF_PATTERN_FRONT,    /* at the beginning: re.match */
    ZF_PATTERN_WHOLE,    /* re.fullmatch */
};

/* Of p[n], which is borrowed until the call returns; everything is in the arena.
 * Errors: ZF_E_UNSUPPORTED it is no expression, with the byte; too long; means one thing to Python and another one to
 * PCRE2.  Of the arena. */
const struct zf_pattern *zf_pattern_new(const char *p, size_t n, enum zf_pattern_where where,
                                        struct zf_arena *a, struct zf_err *err) ZF_CHECKED;

/* The whole match, and groups 1 to 9; from == to == SIZE_MAX: the group took no part. */
#define ZF_PATTERN_GROUPS 10
struct zf_pattern_span {
    size_t from, to; /* bytes of the name */
};

/* Does it match?  groups: ZF_PATTERN_GROUPS of them, or NULL.
 * Errors: ZF_E_UNSUPPORTED it takes more steps than are allowed; ZF_E_NOMEM. */
bool zf_pattern_match(const struct zf_pattern *x, const char *name, size_t n,
                      struct zf_pattern_span *groups, bool *found, struct zf_err *err) ZF_CHECKED;

/* PCRE2's version: "10.42", static. */
const char *zf_pattern_version(void);

#endif
