/* SPDX-License-Identifier: Apache-2.0 */
/* The value of -o recipe=: a recipe of zerofs, a file, or "off". */
#ifndef CMD_RECIPE_FILE_H
#define CMD_RECIPE_FILE_H

#include <zf/recipe/hf.h>

/* A file is named with a slash.  Its text goes into *text, malloc'ed, which o borrows; name is borrowed too.
 * Errors: ZF_E_NOENT and others of reading it; ZF_E_LIMIT it is no recipe. */
bool recipe_file_read(const char *name, const struct zf_limits *lim, struct zf_hf_opts *o,
                      char **text, struct zf_err *err) ZF_CHECKED;

#endif
