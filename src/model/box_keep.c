/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in Fortran order, transposed ones: what is next in the tensor is far away in the file,
 * so that a read of 1 MiB is ten thousand reads of a hundred bytes each.  A block of some MiB
 * takes as many reads, of some KiB each, so blocks are read whole and kept for the reads that
 * follow. */
#include "box.h"

/* Of a block, what is contiguous in the file has this many bytes, */
#define STRETCH (8u << 10)
/* unless that would be more than the upper one of these; the cache holds two blocks at least.  Of 8192 x 8192 float32,
 * blocks of 16 MiB take 1.3 times the processor time of blocks of 32 MiB, those of 8 MiB 2.1 times: the stretches are
 * a half and a quarter as long, and each is a read. */
#define SPAN_MIN (1u << 20)
#define SPAN_MAX (32u << 20)
/* What is contiguous in the file and the tensor and is at least so long is read as fast by itself. */
#define LONG_RUN (4u << 10)

/* Is some dimension nearer together in the file than the innermost is, while its neighbours are so far away in
 * the tensor that no read takes both?  Then the bytes of the tensor between two of them; 0 = it is not so. */
static uint64_t box_turned(const struct box *b)
{
    uint32_t in = b->nd - 1;

    while (in > 0 && b->size[in - 1] == 1)
        in--;
    for (uint32_t d = 0; d + 1 < in && b->size[b->nd - 1] < LONG_RUN; d++)
        if (b->size[d] > 1 && b->stride[d] < b->stride[in - 1] &&
            b->inner[d] * b->size[d] >= SPAN_MIN)
            return b->inner[d];
    return 0;
}

/* Whole steps of the turned dimension, so that blocks end where stretches do; at most `most` bytes. */
static uint64_t box_span_of_block(const struct box *b, uint64_t row, uint64_t most)
{
    const uint64_t elem = b->size[b->nd - 1], rows = (STRETCH + elem - 1) / elem;
    const uint64_t span = row > most / rows ? most : row * rows;

    return span < SPAN_MIN ? SPAN_MIN : row <= span ? span / row * row : span;
}

bool box_is_kept(const struct box *b, const struct zf_limits *lim)
{
    return lim->cache_bytes / 2 >= SPAN_MIN && box_turned(b) > 0;
}

struct zf_source *box_kept_new(const struct box *b, const struct zf_limits *lim, struct zf_err *err)
{
    const uint64_t most = lim->cache_bytes / 2 < SPAN_MAX ? lim->cache_bytes / 2 : SPAN_MAX;
    zf_auto(source) struct zf_source *whole = box_source_new(b, err);

    return whole ? zf_kept_new(whole, box_span_of_block(b, box_turned(b), most), lim, err) : NULL;
}
