/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a text key among many pairs.  Made at the first question and kept in the arena. */
#ifndef CODEC_PICKLE_INDEX_H
#define CODEC_PICKLE_INDEX_H

#include "node.h"

/* The value of a key of n bytes among `pairs` pairs, the last if there are several; NULL = absent.
 */
const struct zf_pv *pickle_index_get(struct pv_items *items, uint32_t pairs, const char *key,
                                     uint64_t n);

#endif
