/* SPDX-License-Identifier: Apache-2.0 */
/* The value of -o recipe=: the name of a built-in recipe, a file, or "off". */
#ifndef CMD_RECIPE_FILE_H
#define CMD_RECIPE_FILE_H

#include <zf/recipe/hf.h>

/* Reads the recipe if `name` is a file, that is, contains a slash.  o borrows its text (*text, malloc'ed) and name.
 * Errors: ZF_E_NOENT and others of reading it; ZF_E_LIMIT it is no recipe. */
bool recipe_file_read(const char *name, const struct zf_limits *lim, struct zf_hf_opts *o,
                      char **text, struct zf_err *err) ZF_CHECKED;

#endif
