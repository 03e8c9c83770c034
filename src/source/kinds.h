/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of sources of this room that can be made again. */
#ifndef SOURCE_KINDS_H
#define SOURCE_KINDS_H

#include <zf/source/recipe.h>

extern const struct zf_source_kind kind_window, kind_mem, kind_swap, kind_inflate, kind_zstd;

/* For kinds that are nothing without a parent.  False: there is none. */
bool kind_has_parent(const struct zf_remake *r, struct zf_err *err) ZF_CHECKED;

#endif
