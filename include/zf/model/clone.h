/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZF_MODEL_CLONE_H
#define ZF_MODEL_CLONE_H

#include <zf/model/map.h>
#include <zf/source/clone.h>

/* zf_source_clone of what the map has at byte off (< size) and of what follows that; c->off and
 * c->n are set here.  Errors: as reading it. */
bool zf_map_clone(const struct zf_map *m, uint64_t off, struct zf_clone *c,
                  struct zf_err *err) ZF_CHECKED;

#endif
