/* SPDX-License-Identifier: Apache-2.0 */
/* Finds keys that a mapping has twice.  Python keeps the value of the last one; whoever reads the
 * pairs in their order meets the first, so a pickle in which this happens is refused. */
#ifndef CODEC_PICKLE_KEYS_H
#define CODEC_PICKLE_KEYS_H

#include "heap.h"

/* The mappings of one pickle that have two keys or more. */
struct pickle_maps {
    struct zf_pv **v;
    uint64_t n, cap;
    uint64_t swept; /* of n: those that stayed when the others were spent */
    uint64_t work;  /* done so far */
};

/* Adds a mapping, once.  Errors: ZF_E_LIMIT pickle_memory. */
bool pickle_maps_add(struct pickle_maps *m, struct pickle_heap *h, struct zf_pv *map,
                     struct zf_err *err) ZF_CHECKED;
/* Looks through those that were added since the last sweep, when `bytes` bytes of the pickle are read.
 * Errors: ZF_E_FORMAT with the key; ZF_E_LIMIT keys so long that comparing them would take longer
 * than reading the pickle by far. */
bool pickle_maps_check(struct pickle_maps *m, uint64_t bytes, struct zf_err *err) ZF_CHECKED;
/* Forgets mappings that are spent (pickle_heap_spend), before a value is made where one of them was. */
void pickle_maps_sweep(struct pickle_maps *m);
/* The same as pickle_maps_check for all that are left, when the pickle is complete. */
bool pickle_maps_check_all(struct pickle_maps *m, uint64_t bytes, struct zf_err *err) ZF_CHECKED;
void pickle_maps_fini(struct pickle_maps *m);

#endif
