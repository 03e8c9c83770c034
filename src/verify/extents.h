/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a file that its tensors refer to, as the file itself says: the pickles of torch.save (several archives in a row,
 * too), the header of safetensors, or all of it, of a chunk of a zarr array.  No reader of a format takes part. */
#ifndef VERIFY_EXTENTS_H
#define VERIFY_EXTENTS_H

#include <zf/base/out.h>
#include <zf/base/vec.h>
#include <zf/model/model.h>

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

#endif
