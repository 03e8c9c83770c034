/* SPDX-License-Identifier: Apache-2.0 */
/* The boxes of one tensor, in bytes and with as few dimensions as possible: between draft and map. */
#ifndef MODEL_BOXES_H
#define MODEL_BOXES_H

#include <zf/base/limits.h>

#include "map_flat.h"

/* A tensor with more dimensions than this, after joining, is refused. */
#define ZF_BOX_DIMS 64

/* Boxes in bytes: the last dimension counts bytes and has stride 1 everywhere. */
struct boxes {
    uint64_t shape[ZF_BOX_DIMS];
    uint64_t *start, *size; /* [n][nd] */
    uint64_t *off;          /* [n] bytes of the source */
    uint32_t *src;          /* [n] */
    uint64_t *stride;       /* [n][nd] bytes; NULL = all are packed */
    bool *strided;          /* [n] which rows of stride count; NULL like stride */
    uint32_t nd, n;
};

#endif
