/* SPDX-License-Identifier: Apache-2.0 */
/* Where the bytes of a tensor are: the pieces of its map as boxes in the dimensions of its shape. */
#ifndef ZF_MODEL_ORIGINS_H
#define ZF_MODEL_ORIGINS_H

#include <zf/model/model.h>

enum zf_origin_kind {
    ZF_ORIGIN_FILE,   /* bytes of a file */
    ZF_ORIGIN_SOURCE, /* bytes of a source that is no file: memory, or computed */
    ZF_ORIGIN_MEMORY,
    ZF_ORIGIN_ZERO,
    ZF_ORIGIN_MADE, /* computed, or otherwise without an exact place */
    ZF_ORIGIN_LOST,
};

struct zf_origin {
    enum zf_origin_kind kind;
    /* [ndim] of the tensor: the box; NULL (only for MADE): the elements are no box */
    const uint64_t *start, *count;
    /* FILE: bytes from one element to the next in each dimension; NULL = packed, C order */
    const uint64_t *stride;
    struct zf_source *src; /* FILE, SOURCE; MADE: from this one, or NULL.  Borrowed */
    uint64_t off;          /* FILE, SOURCE: offset of the first byte, or of the compressed stream */
    uint64_t
        bytes; /* in src, from the box's first byte to its last (LOST: may be 0); with a codec, of the stream */
    const char *codec; /* FILE: the compression of the stream in src; or NULL */
    uint64_t skip;     /* offset of the box in the decompressed stream */
    uint32_t swap;   /* FILE: the bytes of each group of this many are reversed; 0 = not swapped */
    const void *mem; /* MEMORY: bytes */
    const struct zf_lost *lost;
};

/* Allocates the working memory for a tensor; free it with free().  NULL with ZF_E_NOMEM. */
struct zf_origins *zf_origins_new(const struct zf_tensor *t, struct zf_err *err) ZF_CHECKED;

/* *o is valid only during the call; return false to end the piece. */
typedef bool zf_origin_fn(void *ctx, const struct zf_origin *o);

/* Calls fn for the boxes of one piece of the tensor's map (zf_map_each_extent); the boxes of all pieces together
 * contain every element once.  False: fn ended it. */
bool zf_origins_of(struct zf_origins *o, const struct zf_extent *e, zf_origin_fn *fn, void *ctx);

#endif
