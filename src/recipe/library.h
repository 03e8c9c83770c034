/* SPDX-License-Identifier: Apache-2.0 */
/* The recipes that are part of zerofs: the files of recipes/, compiled in. */
#ifndef RECIPE_LIBRARY_H
#define RECIPE_LIBRARY_H

#include <stdint.h>

struct library_text {
    const char *name, *text;
};
/* The i-th by name; NULL = no more.  Names that begin with '_' are there to be used by others. */
const struct library_text *library_at(uint32_t i);
/* The text of that name (recipe_find_fn), or NULL. */
const char *library_find(void *ctx, const char *name);

#endif
