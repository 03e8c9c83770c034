/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a tensor of a zarr array: the chunks listed in its directory are boxes of the tensor, in one items source that
 * opens a chunk's file when it is first read.  Chunks without a file are the fill_value, or lost.  Time and memory
 * depend on the number of files, not on the size of the grid: consecutive missing chunks become a few boxes. */
#ifndef ZF_ASSEMBLE_ZARR_H
#define ZF_ASSEMBLE_ZARR_H

#include <zf/codec/zarr.h>
#include <zf/model/build.h>
#include <zf/source/store.h>

struct zf_zarr_array {
    struct zf_store *st; /* borrowed */
    const char *key;     /* its directory in st; borrowed */
    char *text;          /* the contents of .zarray; owned */
    struct zf_zarr z;    /* shape, type and grid; lists in the arena */
};

static inline void zf_auto_zarr_array(struct zf_zarr_array *a)
{
    free(a->text);
}

/* Reads .zarray in the directory `key`; free with zf_auto(zarr_array).
 * Errors: of reading and zf_zarr_load. */
bool zf_zarr_array_read(struct zf_store *st, const char *key, const struct zf_limits *lim,
                        struct zf_arena *arena, struct zf_zarr_array *out,
                        struct zf_err *err) ZF_CHECKED;
/* Adds the whole array to the draft, whose type must be that of a->z.  Lists each directory once and opens no chunk,
 * except the first of a compressed array, whose header is compared with .zarray.
 * Errors: ZF_E_FORMAT a chunk is missing and there is no fill_value, or it is no file, has a wrong length or is outside
 * of the grid (in a degraded build: notes and lost bytes); those of listing. */
bool zf_zarr_array_put(const struct zf_zarr_array *a, const struct zf_limits *lim,
                       struct zf_build *b, struct zf_draft *draft, struct zf_err *err) ZF_CHECKED;

/* Chunks of an array in a cached model. */
extern const struct zf_source_kind zf_zarr_array_kind;

#endif
