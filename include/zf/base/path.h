/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that a checkpoint's own files name. */
#ifndef ZF_BASE_PATH_H
#define ZF_BASE_PATH_H

#include <stdbool.h>

/* Relative, not empty, every component a plain name (no "", "." or ".."):
 * what a store may be asked for. */
bool zf_relpath_ok(const char *path);

#endif
