/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of parameter names that a checkpoint brings, as Python's re.match has them: literals, classes, and
 * what is repeated.  Without groups and alternatives a name is matched in one pass, whatever a hostile
 * file made of the pattern. */
#ifndef ZF_ASSEMBLE_PY_PATTERN_H
#define ZF_ASSEMBLE_PY_PATTERN_H

#include <zf/base/arena.h>

struct zf_py_pattern;

/* Everything is in the arena.  Errors: ZF_E_UNSUPPORTED it has something else in it, or more than some
 * hundred characters that match. */
const struct zf_py_pattern *zf_py_pattern_new(const char *p, size_t n, struct zf_arena *a,
                                              struct zf_err *err) ZF_CHECKED;
/* Does it match at the beginning of the name (re.match)? */
bool zf_py_pattern_match(const struct zf_py_pattern *x, const char *name, size_t n);

#endif
