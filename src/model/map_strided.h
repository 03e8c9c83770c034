/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_MAP_STRIDED_H
#define MODEL_MAP_STRIDED_H

#include "map_kind.h"
#include "sources.h"

/* If m, of zf_map_strided, has a transposed order, a read of it takes a few bytes from each of many rows; from now on blocks
 * of it are read whole, and kept (limit cache_bytes) for the reads that follow.  Their source is t's.
 * Errors: ZF_E_NOMEM. */
bool map_strided_keep(struct zf_map *m, struct sources *t, const struct zf_limits *lim,
                      struct zf_err *err) ZF_CHECKED;

/* A map where a source is wanted (map_source.c); the map is borrowed.  Errors: ZF_E_NOMEM. */
struct zf_source *map_source_new(const struct zf_map *m, struct zf_err *err) ZF_CHECKED;

#endif
