/* SPDX-License-Identifier: Apache-2.0 */
/* The store over a place. */
#ifndef REMOTE_STORE_H
#define REMOTE_STORE_H

#include <zf/source/store.h>

#include "blockcache.h"
#include "diskcache.h"
#include "place.h"

/* Takes the place, also on failure.  focus: the one file that is meant, or NULL; its name in messages
 * is then the address.  disk: or NULL.  Errors: ZF_E_NOMEM. */
struct zf_store *store_of_place(struct place *p, const char *focus, struct blockcache *cache,
                                struct diskcache *disk, const struct zf_limits *lim,
                                struct zf_err *err) ZF_CHECKED;

#endif
