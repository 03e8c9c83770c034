/* SPDX-License-Identifier: Apache-2.0 */
/* Of the bytes that the tensors of a file refer to: those that nothing is made of. */
#ifndef VERIFY_GAPS_H
#define VERIFY_GAPS_H

#include "extents.h"
#include "places.h"

struct gap {
    uint64_t off, end;
    uint64_t record; /* as in struct extent */
    bool whole;      /* all that a tensor has there */
};

static inline uint64_t gap_bytes(const struct gap *g)
{
    return g->end - g->off;
}

struct gaps {
    zf_vec(struct gap) at; /* by off; no two have a byte in common */
    uint64_t shown;        /* other bytes of the file's tensors */
};

/* Of the extents x of `src`, without all places of shown[n].  Errors: ZF_E_NOMEM. */
bool gaps_find(struct gaps *g, const struct extents *x, const struct zf_source *src,
               const struct places *const *shown, size_t n, struct zf_err *err) ZF_CHECKED;
void gaps_fini(struct gaps *g);

#endif
