/* SPDX-License-Identifier: Apache-2.0 */
/* Directory entries as a place gave them, and what it did not say of them.  Families believe the sizes
 * that a listing has (an empty chunk of an array is a chunk of fill values), so that a listing without
 * them is completed by asking for each file's head. */
#ifndef REMOTE_SIZES_H
#define REMOTE_SIZES_H

#include <zf/base/vec.h>

#include "place.h"

struct sizes_entry {
    char *name; /* malloc'ed */
    bool dir;
    bool asked; /* for its size: the listing does not say it */
    bool gone;  /* the server does not give it */
    struct http_object object;
};
struct sizes {
    zf_vec(struct sizes_entry);
    uint64_t most, most_asked; /* limits dir_entries, head_requests */
};

/* A place_add_fn; ctx is a struct sizes.  Errors: ZF_E_NOMEM, ZF_E_LIMIT more than `most` names. */
bool sizes_add(void *ctx, const struct place_entry *e, struct zf_err *err);

/* Asks for what is not known of the files in `dir`, many at once.
 * Errors: ZF_E_IO nobody answers, ZF_E_LIMIT more than `most_asked`, ZF_E_NOMEM. */
bool sizes_complete(struct place *p, const char *dir, struct sizes *all,
                    struct zf_err *err) ZF_CHECKED;

/* Only notes which files it would ask for. */
void sizes_mark(struct sizes *all);

void sizes_fini(struct sizes *all);
static inline void zf_auto_sizes(struct sizes *all)
{
    sizes_fini(all);
}

#endif
