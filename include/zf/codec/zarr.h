/* SPDX-License-Identifier: Apache-2.0 */
/* Zarr arrays of version 2: `.zarray` and the contents of chunk files.  The caller knows where the files are.
 * Sources: the zarr v2 specification; zarr-python 2.18 meta.py (the spellings of fill_value);
 * tensorstore's zarr driver ("bfloat16" as dtype, which Megatron-core writes as well, zarr.py
 * _create_zarr_array); numcodecs 0.13 (compressors). */
#ifndef ZF_CODEC_ZARR_H
#define ZF_CODEC_ZARR_H

#include <zf/base/arena.h>
#include <zf/base/dtype.h>
#include <zf/base/limits.h>
#include <zf/source/source.h>

#define ZF_ZARR_DIMS 64

enum zf_zarr_codec {
    ZF_ZARR_RAW,
    ZF_ZARR_ZLIB,
    ZF_ZARR_GZIP,
    ZF_ZARR_ZSTD,
    ZF_ZARR_LZ4,
    ZF_ZARR_BLOSC
};

enum zf_zarr_fill {
    ZF_ZARR_UNDEFINED, /* null */
    ZF_ZARR_ZERO,      /* 0, 0.0, or false of booleans */
    ZF_ZARR_OTHER      /* any other value, not read */
};

struct zf_zarr {
    enum zf_dtype dtype;
    enum zf_zarr_codec codec;
    char separator;         /* between the indices in a chunk's name: '.' or '/' */
    bool swapped;           /* elements are big-endian, see zf_zarr_chunk */
    bool order_f;           /* chunks have their first dimension innermost */
    enum zf_zarr_fill fill; /* value of the elements that no chunk holds */
    char fill_text[32];     /* fill_value as in the file, truncated */
    uint32_t ndim;          /* at most ZF_ZARR_DIMS */
    /* [ndim] each */
    const uint64_t *shape; /* elements */
    /* elements of every chunk, including those at the edges; 0 only where shape is 0 */
    const uint64_t *chunk;
    const uint64_t *grid; /* chunks */
    uint64_t n_chunks, chunk_bytes /* once decompressed */, bytes /* of the array */;
};

/* Reads the text of a `.zarray`; the lists are in the arena.
 * Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED (element type, compressor, filters: by name), ZF_E_LIMIT
 * tensor_dims, grid_cells; of zf_arena_get. */
bool zf_zarr_load(const char *text, uint64_t n, const struct zf_limits *lim, struct zf_arena *arena,
                  struct zf_zarr *out, struct zf_err *err) ZF_CHECKED;

/* Gives the number (C order in the grid) of the chunk with the file name `name`; false: it is no chunk's name.
 * *outside: it is the name of a chunk outside the grid: with a larger number, another separator, or more or fewer
 * dimensions. */
bool zf_zarr_number(const struct zf_zarr *z, const char *name, uint64_t *out, bool *outside);
/* The name of chunk `number`: at most ZF_ZARR_NAME bytes, terminated.  Returns its length. */
#define ZF_ZARR_NAME (ZF_ZARR_DIMS * 21 + 1)
size_t zf_zarr_name(const struct zf_zarr *z, uint64_t number, char *out);

/* Makes a source of the little-endian elements of the chunk in `file`, z->chunk_bytes long.  Reads the header of a
 * compressed chunk.
 * Errors: ZF_E_FORMAT the file's length, or the length in its header, is wrong;
 * ZF_E_LIMIT chunk_bytes; of zf_zarr_can. */
struct zf_source *zf_zarr_chunk(const struct zf_zarr *z, struct zf_source *file,
                                const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* True if the codec can be decompressed; loads c-blosc if needed.  Errors: ZF_E_UNSUPPORTED zerofs was built without
 * it, or the library cannot be loaded. */
bool zf_zarr_can(enum zf_zarr_codec codec, struct zf_err *err) ZF_CHECKED;
/* The version of the c-blosc that is loaded for it, or NULL and the reason (static). */
const char *zf_zarr_blosc_version(const char **why_out) ZF_CHECKED;

#endif
