/* SPDX-License-Identifier: Apache-2.0 */
/* Relative paths: those that a checkpoint's own files name, and those made of two. */
#ifndef ZF_BASE_PATH_H
#define ZF_BASE_PATH_H

#include <zf/base/err.h>

/* Relative, not empty, every component a plain name (no "", "." or ".."):
 * what a store may be asked for. */
bool zf_relpath_ok(const char *path);

/* "dir/name", or "name" where dir is ""; malloc'ed.  NULL: ZF_E_NOMEM. */
char *zf_relpath_join(const char *dir, const char *name, struct zf_err *err) ZF_CHECKED;

/* Makes a path (malloc'ed, not empty) absolute, relative to the working directory; it need not exist. */
bool zf_path_absolute(char **path, struct zf_err *err) ZF_CHECKED;

#endif
