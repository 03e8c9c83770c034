/* SPDX-License-Identifier: Apache-2.0 */
/* One box as a read needs it, and the reading of it.  Everything counts bytes: the last dimension
 * of a box has stride 1 in its source and in the tensor.
 *
 * A read asks for a stretch of the tensor in C order.  What of it lies in one box is a stretch of
 * the box in the box's own C order, because both orders agree; so a packed box answers with one
 * piece of its source, whose rows are only scattered in the reply. */
#ifndef MODEL_BOX_H
#define MODEL_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zf/base/buffer.h>

#include "boxes.h"

struct box {
    struct zf_source *src;         /* NULL = zeros */
    uint64_t off;                  /* of the first byte in src */
    bool packed;                   /* stride need not be looked at */
    uint32_t nd;                   /* > 0 */
    uint64_t start[ZF_BOX_DIMS];   /* in the tensor */
    uint64_t size[ZF_BOX_DIMS];    /* > 0 */
    uint64_t inner[ZF_BOX_DIMS];   /* bytes of the box per step of each dimension, C order */
    uint64_t stride[ZF_BOX_DIMS];  /* bytes in src per step; last is 1 */
    const uint64_t *tensor_stride; /* [nd] bytes of the tensor per step */
    const uint64_t *tensor_shape;  /* [nd] */
};

/* Where short rows are read before they are put in place; begins as {0}.  One is enough for a
 * reply, however many boxes it has. */
struct scratch {
    uint64_t used;
    struct zf_buffer *block; /* of ZF_BUFFER_BYTES; NULL as long as there was no such row */
};

static inline void zf_auto_scratch(struct scratch *s)
{
    zf_buffer_give(s->block);
}

/* Fills inner, and stride of a packed box, from size. */
void box_measure(struct box *b);

/* The coordinates c [nd] of byte `off` of a tensor. */
static inline void box_coordinates(uint32_t nd, const uint64_t *tensor_stride, uint64_t off,
                                   uint64_t *c)
{
    for (uint32_t d = 0; d < nd; d++) {
        c[d] = off / tensor_stride[d];
        off %= tensor_stride[d];
    }
}

/* The number of bytes of the box before byte `off` of the tensor, whose coordinates are c [nd]. */
uint64_t box_rank(const struct box *b, const uint64_t *c);

/* The offset in the source of byte `off` of the tensor (coordinates c, inside the box). */
uint64_t box_place(const struct box *b, const uint64_t *c);

/* Bytes of the source from the first to behind the last of the box. */
uint64_t box_span(const struct box *b);

/* Reads bytes [lo, hi) of the box (its own C order) to where they belong in the reply, which begins
 * at byte `off` of the tensor. */
bool box_read(const struct box *b, uint64_t lo, uint64_t hi, unsigned char *reply, uint64_t off,
              struct scratch *scratch, struct zf_err *err) ZF_CHECKED;

/* The same for a box whose bytes have other steps or another order in the source (box_gather.c). */
bool box_gather(const struct box *b, uint64_t lo, uint64_t hi, unsigned char *reply, uint64_t off,
                struct zf_err *err) ZF_CHECKED;

/* Calls fn for the bytes of the source that [lo, hi) of such a box lie among, if they are a quarter of
 * them or nearly adjoin. */
bool box_ranges(const struct box *b, uint64_t lo, uint64_t hi,
                bool (*fn)(void *ctx, struct zf_source *s, uint64_t off, uint64_t len), void *ctx);

/* A box that is not packed, as a source of its bytes in its own C order (box_source.c). */
struct zf_source *box_source_new(const struct box *box, struct zf_err *err) ZF_CHECKED;

/* Would reads of the box take a few bytes from each of many places, so that large blocks of it are better read whole
 * and kept (box_keep.c)? */
bool box_is_kept(const struct box *b, const struct zf_limits *lim);
/* A source of the bytes of such a box, in its own C order, by blocks that are kept (limit cache_bytes). */
struct zf_source *box_kept_new(const struct box *b, const struct zf_limits *lim,
                               struct zf_err *err) ZF_CHECKED;

/* Is there a way for elements of this many bytes? */
bool turn_can(uint64_t bytes);

/* Element (row r, column c) of n bytes, which is at from + c * from_pitch + r * n, goes to
 * to + r * to_pitch + c * n.  Nothing has to be aligned; the two do not overlap. */
struct turn {
    unsigned char *to;
    const unsigned char *from;
    size_t to_pitch, from_pitch; /* bytes */
    size_t rows, cols;
    bool past; /* whole lines go past the caches: of more than those hold, or read much later */
};

void turn_matrix(const struct turn *t, size_t bytes);

#endif
