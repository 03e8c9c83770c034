/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a file that its tensors refer to, and those of them that nothing is made of. */
#ifndef VERIFY_GAPS_H
#define VERIFY_GAPS_H

#include <zf/base/out.h>
#include <zf/base/vec.h>
#include <zf/model/model.h>

#include "places.h"

/* ---- extents --------------------------------------------------------------------------------- */

struct extent {
    uint64_t off, end;
    uint64_t record; /* where its name begins in `names` */
};

struct extents {
    zf_vec(struct extent) at; /* by off */
    struct zf_out
        names; /* of records, as sources have them behind the file's, each with its NUL: "!archive/data/3",
                                 "!item@4096!archive/data/0", "!wte.weight"; "" = all of the file */
    size_t lead;       /* bytes of the file's name */
    uint64_t unknown;  /* tensors of which the bytes cannot be told, … */
    struct zf_err why; /* … and why of the first */
};

/* Is it a chunk of a zarr array, by its name of numbers below a directory with the file that describes one?
 * Errors: ZF_E_NOMEM. */
bool extents_is_chunk(struct zf_store *st, const char *path, bool *out,
                      struct zf_err *err) ZF_CHECKED;
/* chunk: the file is one of a zarr array.  What is damaged, or is no such file, has no extents: opening, and the check of
 * archives, tell of it.  Errors: ZF_E_NOMEM, ZF_E_LIMIT; of reading. */
bool extents_load(struct extents *x, struct zf_source *src, bool chunk, const struct zf_limits *lim,
                  struct zf_err *err) ZF_CHECKED;
void extents_fini(struct extents *x);

static inline const char *extents_name(const struct extents *x, uint64_t record)
{
    return x->names.p + record;
}

/* ---- gaps ------------------------------------------------------------------------------------ */
/* Of the bytes that the tensors of a file refer to: those that nothing is made of. */

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
