/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns over paths of the tree, as shells with `globstar` have them. */
#ifndef ZF_BASE_GLOB_H
#define ZF_BASE_GLOB_H

#include <stdbool.h>

/* Does `text` hold a character that makes it a pattern? */
bool zf_glob_is_pattern(const char *text);

/* fnmatch(3), where *, ? and [...] stop at '/' and ** does not; "**" followed by '/' also matches
 * no directory at all. */
bool zf_glob_match(const char *pattern, const char *path);

#endif
