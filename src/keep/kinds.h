/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of sources that a kept model may be made of, by number. */
#ifndef KEEP_KINDS_H
#define KEEP_KINDS_H

#include <zf/source/recipe.h>

/* The n-th, or NULL. */
const struct zf_source_kind *kinds_at(uint64_t n);
/* False: it is none of them. */
bool kinds_number(const struct zf_source_kind *kind, uint64_t *out);

#endif
