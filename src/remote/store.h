/* SPDX-License-Identifier: Apache-2.0 */
/* The store over a place. */
#ifndef REMOTE_STORE_H
#define REMOTE_STORE_H

#include <zf/source/store.h>

#include "blockcache.h"
#include "diskcache.h"
#include "place.h"

/* Clients and caches that a store reads through; NULL = none. */
struct store_ways {
    const char *focus; /* the one file that is meant; its name in messages is then the address */
    const char *local; /* -o local_cache=DIR */
    struct blockcache *cache; /* never NULL */
    struct diskcache *disk;
};
/* Takes the place, also on failure.  Errors: ZF_E_NOMEM; of zf_store_dir. */
struct zf_store *store_of_place(struct place *p, const struct store_ways *w,
                                const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif
