/* SPDX-License-Identifier: Apache-2.0 */
/* A zarr array becomes a tensor: the chunks that its directory lists are boxes of it, at their addresses in
 * one items source, which opens a chunk's file when it is first read.  What no file holds is the
 * fill_value, or lost.  Nothing here depends on how large the grid is, only on how many files there
 * are: chunks that are missing one after the other become a few boxes.  Only the store is asked. */
#ifndef ZF_ASSEMBLE_ZARR_H
#define ZF_ASSEMBLE_ZARR_H

#include <zf/codec/zarr.h>
#include <zf/model/build.h>
#include <zf/source/store.h>

struct zf_zarr_array {
    struct zf_store *st; /* borrowed */
    const char *key;     /* its directory there; borrowed */
    char *text;          /* of .zarray; owned */
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
/* Puts all of the array into the draft, whose type is that of a->z.  Lists each directory once and opens no chunk,
 * but for the first of a compressed array, whose head is compared with .zarray.
 * Errors: ZF_E_FORMAT a chunk is missing and there is no fill_value, is no file, of a wrong length, outside of the grid: notes
 * and lost bytes in a degraded build; of listing. */
bool zf_zarr_array_put(const struct zf_zarr_array *a, const struct zf_limits *lim,
                       struct zf_build *b, struct zf_draft *draft, struct zf_err *err) ZF_CHECKED;

/* Chunks of an array in a kept model. */
extern const struct zf_source_kind zf_zarr_array_kind;

#endif
