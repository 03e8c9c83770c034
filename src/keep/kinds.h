/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the kinds of sources that a cached model may contain. */
#ifndef KEEP_KINDS_H
#define KEEP_KINDS_H

#include <zf/source/recipe.h>

/* The kind with number n, or NULL. */
const struct zf_source_kind *kinds_at(uint64_t n);
/* Finds the number of a kind.  False: it has none. */
bool kinds_number(const struct zf_source_kind *kind, uint64_t *out);

#endif
