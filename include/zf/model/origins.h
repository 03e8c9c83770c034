/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of a tensor, and where the bytes of each of them are: the pieces of its map in the dimensions of its shape. */
#ifndef ZF_MODEL_ORIGINS_H
#define ZF_MODEL_ORIGINS_H

#include <zf/model/model.h>

enum zf_origin_kind {
    ZF_ORIGIN_FILE,   /* bytes of a file */
    ZF_ORIGIN_SOURCE, /* of a source that is no file: memory, or computed */
    ZF_ORIGIN_MEMORY,
    ZF_ORIGIN_ZERO,
    ZF_ORIGIN_MADE, /* they cannot be told */
    ZF_ORIGIN_LOST,
};

struct zf_origin {
    enum zf_origin_kind kind;
    /* [ndim] of the tensor: the box; NULL (MADE alone): it is no box */
    const uint64_t *start, *count;
    /* FILE: bytes between elements, in each dimension; NULL = packed, in C order */
    const uint64_t *stride;
    struct zf_source *src; /* FILE, SOURCE; MADE: from this one, or NULL.  Borrowed */
    uint64_t off;          /* FILE, SOURCE: of the first byte, or of the stream */
    uint64_t
        bytes; /* of the box, from its first to behind its last (also LOST: 0); of the stream, if there is a codec */
    const char *codec; /* FILE: src holds a stream of this kind; or NULL */
    uint64_t skip;   /* how many of the bytes that the stream decompresses to come before the box */
    uint32_t swap;   /* FILE: bytes a group; those of each are in the opposite order; 0 = none */
    const void *mem; /* MEMORY: bytes */
    const struct zf_lost *lost;
};

/* Room for what belongs to a tensor; NULL with ZF_E_NOMEM.  Freed with free. */
struct zf_origins *zf_origins_new(const struct zf_tensor *t, struct zf_err *err) ZF_CHECKED;

/* Called with what is only good until it returns; false: no more of this piece. */
typedef bool zf_origin_fn(void *ctx, const struct zf_origin *o);

/* Calls fn for the boxes of one piece of the tensor's map (zf_map_each_extent); together those of all pieces hold every
 * element once.  False: fn ended it. */
bool zf_origins_of(struct zf_origins *o, const struct zf_extent *e, zf_origin_fn *fn, void *ctx);

#endif
