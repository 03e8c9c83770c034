/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a file that its tensors refer to, and which of them are shown nowhere. */
#ifndef VERIFY_GAPS_H
#define VERIFY_GAPS_H

#include <zf/base/out.h>
#include <zf/base/vec.h>
#include <zf/model/model.h>

#include "places.h"

/* ---- extents --------------------------------------------------------------------------------- */

struct extent {
    uint64_t off, end;
    uint64_t record; /* offset of its name in `names` */
};

struct extents {
    zf_vec(struct extent) at; /* sorted by off */
    struct zf_out
        names; /* of records, the part of a source's name after the file's, each with its NUL: "!archive/data/3",
                                 "!item@4096!archive/data/0", "!wte.weight"; "" = the whole file */
    size_t lead;       /* length of the file's name */
    uint64_t unknown;  /* number of tensors whose bytes cannot be determined, … */
    struct zf_err why; /* … and the reason for the first */
};

/* Is it a chunk of a zarr array: a name of numbers, below a directory with the file that describes an array?
 * Errors: ZF_E_NOMEM. */
bool extents_is_chunk(struct zf_store *st, const char *path, bool *out,
                      struct zf_err *err) ZF_CHECKED;
/* Loads the extents of a file.  chunk: it is a chunk of a zarr array.  A damaged file, or one of another kind, has
 * none: opening and the check of archives report damage.  Errors: ZF_E_NOMEM, ZF_E_LIMIT; of reading. */
bool extents_load(struct extents *x, struct zf_source *src, bool chunk, const struct zf_limits *lim,
                  struct zf_err *err) ZF_CHECKED;
void extents_fini(struct extents *x);

static inline const char *extents_name(const struct extents *x, uint64_t record)
{
    return x->names.p + record;
}

/* ---- gaps ------------------------------------------------------------------------------------ */
/* The bytes that the tensors of a file refer to, but that are shown nowhere. */

struct gap {
    uint64_t off, end;
    uint64_t record; /* as in struct extent */
    bool whole;      /* all bytes of a tensor's extent */
};

static inline uint64_t gap_bytes(const struct gap *g)
{
    return g->end - g->off;
}

struct gaps {
    zf_vec(struct gap) at; /* sorted by off, disjoint */
    uint64_t shown;        /* number of the tensors' bytes that are in no gap */
};

/* Finds the bytes in the extents x of `src` that are in no place of shown[n].  Errors: ZF_E_NOMEM. */
bool gaps_find(struct gaps *g, const struct extents *x, const struct zf_source *src,
               const struct places *const *shown, size_t n, struct zf_err *err) ZF_CHECKED;
void gaps_fini(struct gaps *g);

#endif
