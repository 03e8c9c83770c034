/* SPDX-License-Identifier: Apache-2.0 */
#include "box.h"

#include <string.h>

/* Rows of at least this many bytes are read by preadv straight into the reply.  For shorter ones the
 * kernel's work per row outweighs copying them out of one block. */
#define SHORT_ROW 2048
/* A buffer area is reused only after this many reads: a pread of 128 KiB to the area of the last
 * one takes a third longer (Zen 5). */
#define AREAS 8
#define IOVS 1024

void box_measure(struct box *b)
{
    uint64_t n = 1;

    for (uint32_t d = b->nd; d-- > 0;) {
        b->inner[d] = n;
        if (b->packed)
            b->stride[d] = n;
        n *= b->size[d];
    }
}

uint64_t zf_box_sub(uint32_t nd, const uint64_t *size, uint64_t at, uint64_t n, uint64_t *start,
                    uint64_t *extent)
{
    uint64_t count = 1; /* positions so far */
    bool whole = true;  /* the box covers all dimensions inside this one */

    for (uint32_t d = nd; d-- > 0;) {
        start[d] = at % size[d];
        at /= size[d];
        extent[d] = 1;
        if (whole) {
            uint64_t fit = n / count, left = size[d] - start[d];

            extent[d] = fit < left ? fit : left;
            count *= extent[d];
            whole = extent[d] == size[d];
        }
    }
    return count;
}

uint64_t box_rank(const struct box *b, const uint64_t *c)
{
    uint64_t rank = 0;

    for (uint32_t d = 0; d < b->nd; d++) {
        if (c[d] < b->start[d])
            break;
        uint64_t in = c[d] - b->start[d];
        if (in >= b->size[d])
            return rank + b->size[d] * b->inner[d];
        rank += in * b->inner[d];
    }
    return rank;
}

uint64_t box_place(const struct box *b, const uint64_t *c)
{
    uint64_t off = b->off;

    for (uint32_t d = 0; d < b->nd; d++)
        off += (c[d] - b->start[d]) * b->stride[d];
    return off;
}

uint64_t box_span(const struct box *b)
{
    uint64_t last = 0;

    for (uint32_t d = 0; d < b->nd; d++)
        last += (b->size[d] - 1) * b->stride[d];
    return last + 1;
}

/* Fetching this many bytes too much costs less than a second request. */
#define NEAR (64u << 10)

bool box_ranges(const struct box *b, uint64_t lo, uint64_t hi,
                bool (*fn)(void *ctx, struct zf_source *s, uint64_t off, uint64_t len), void *ctx)
{
    while (lo < hi) {
        uint64_t start[ZF_BOX_DIMS], extent[ZF_BOX_DIMS], off = b->off, span = 1;
        const uint64_t n = zf_box_sub(b->nd, b->size, lo, hi - lo, start, extent);

        for (uint32_t d = 0; d < b->nd; d++) {
            off += start[d] * b->stride[d];
            span += (extent[d] - 1) * b->stride[d];
        }
        if ((span / 4 <= n || span - n <= NEAR) && !fn(ctx, b->src, off, span))
            return false;
        lo += n;
    }
    return true;
}

/* ---- the rows of a box, in order ---------------------------------------------------------- */

/* A row is contiguous in the tensor: the last dimension, and all dimensions next to it that the box
 * covers completely. */
struct rows {
    const struct box *b;
    uint32_t nd;               /* dimensions outside of a row */
    uint64_t len;              /* bytes of a row */
    uint64_t in;               /* bytes of the current row already passed */
    uint64_t pos;              /* offset of the row in the tensor */
    uint64_t idx[ZF_BOX_DIMS]; /* [nd] */
};

static void box_rows_init(struct rows *r, const struct box *b, uint64_t at)
{
    uint32_t d = b->nd - 1;

    while (d > 0 && b->size[d] == b->tensor_shape[d])
        d--;
    r->b = b;
    r->nd = d;
    r->len = b->size[d] * b->inner[d];
    r->in = at % r->len;
    r->pos = 0;
    for (uint32_t i = 0; i < b->nd; i++)
        r->pos += b->start[i] * b->tensor_stride[i];
    for (uint32_t i = 0; i < d; i++) {
        r->idx[i] = at / b->inner[i] % b->size[i];
        r->pos += r->idx[i] * b->tensor_stride[i];
    }
}

static void box_rows_next(struct rows *r)
{
    const struct box *b = r->b;

    r->in = 0;
    for (uint32_t d = r->nd; d-- > 0;) {
        r->pos += b->tensor_stride[d];
        if (++r->idx[d] < b->size[d])
            return;
        r->pos -= b->size[d] * b->tensor_stride[d];
        r->idx[d] = 0;
    }
}

/* Advances by at most n bytes within a row; *at_out: their offset in the tensor.  Returns their number. */
static uint64_t box_rows_take(struct rows *r, uint64_t n, uint64_t *at_out)
{
    uint64_t k = r->len - r->in;

    k = k < n ? k : n;
    *at_out = r->pos + r->in;
    r->in += k;
    if (r->in == r->len)
        box_rows_next(r);
    return k;
}

#define COPY_ROWS(bytes)                                                                           \
    case bytes:                                                                                    \
        for (uint64_t i = 0; i < n; i++)                                                           \
            memcpy(to + i * step, from + i * (bytes), bytes);                                      \
        break

/* Copies n packed rows to every `step` bytes; common lengths without a call per row. */
static void box_scatter_rows(unsigned char *to, uint64_t step, const unsigned char *from,
                             uint64_t len, uint64_t n)
{
    switch (len) {
        COPY_ROWS(16);
        COPY_ROWS(32);
        COPY_ROWS(64);
        COPY_ROWS(128);
        COPY_ROWS(256);
    default:
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + i * step, from + i * len, (size_t)len);
    }
}

/* Copies rows out of a block of `have` bytes: the rest of the current row, or all following rows at
 * the same distance.  Returns the number of bytes copied. */
static uint64_t box_copy_rows(struct rows *r, const unsigned char *block, uint64_t have,
                              unsigned char *reply, uint64_t off)
{
    uint32_t d = r->nd - 1;
    uint64_t fit = have / r->len, at;

    if (r->in != 0 || fit < 2) {
        uint64_t k = box_rows_take(r, have, &at);

        memcpy(reply + (at - off), block, (size_t)k);
        return k;
    }
    uint64_t left = r->b->size[d] - r->idx[d], n = fit < left ? fit : left;
    uint64_t step = r->b->tensor_stride[d];

    box_scatter_rows(reply + (r->pos - off), step, block, r->len, n);
    r->pos += (n - 1) * step;
    r->idx[d] += n - 1;
    box_rows_next(r);
    return n * r->len;
}

/* ---- reading ------------------------------------------------------------------------------ */

static void box_read_zeros(const struct box *b, uint64_t lo, uint64_t hi, unsigned char *reply,
                           uint64_t off)
{
    struct rows r;
    uint64_t at;

    box_rows_init(&r, b, lo);
    while (lo < hi) {
        uint64_t k = box_rows_take(&r, hi - lo, &at);

        memset(reply + (at - off), 0, (size_t)k);
        lo += k;
    }
}

static bool box_read_scattered(const struct box *b, uint64_t lo, uint64_t hi, unsigned char *reply,
                               uint64_t off, struct zf_err *err)
{
    struct iovec iov[IOVS];
    struct rows r;
    uint64_t at;

    box_rows_init(&r, b, lo);
    while (lo < hi) {
        uint64_t from = lo;
        int n = 0;

        while (lo < hi && n < IOVS) {
            uint64_t k = box_rows_take(&r, hi - lo, &at);

            iov[n++] = (struct iovec){.iov_base = reply + (at - off), .iov_len = (size_t)k};
            lo += k;
        }
        if (!zf_source_preadv(b->src, iov, n, b->off + from, err))
            return false;
    }
    return true;
}

/* A buffer for n bytes, at most one area. */
static unsigned char *box_scratch(struct scratch *s, uint64_t n)
{
    const uint64_t all = n < ZF_BUFFER_BYTES / AREAS ? n * AREAS : ZF_BUFFER_BYTES;

    if (s->used > all || n > all - s->used)
        s->used = 0;
    unsigned char *p = (unsigned char *)s->block->at + s->used;
    s->used += n;
    return p;
}

static bool box_read_copied(const struct box *b, uint64_t lo, uint64_t hi, unsigned char *reply,
                            uint64_t off, struct scratch *scratch, struct zf_err *err)
{
    struct rows r;

    if (!scratch->block && !(scratch->block = zf_buffer_take(ZF_BUFFER_BYTES)))
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    box_rows_init(&r, b, lo);
    while (lo < hi) {
        uint64_t n = hi - lo < ZF_BUFFER_BYTES ? hi - lo : ZF_BUFFER_BYTES;
        unsigned char *block = box_scratch(scratch, n);

        if (!zf_source_pread(b->src, block, (size_t)n, b->off + lo, err))
            return false;
        for (uint64_t in = 0; in < n;)
            in += box_copy_rows(&r, block + in, n - in, reply, off);
        lo += n;
    }
    return true;
}

bool box_read(const struct box *b, uint64_t lo, uint64_t hi, unsigned char *reply, uint64_t off,
              struct scratch *scratch, struct zf_err *err)
{
    struct rows r;
    uint64_t at;

    if (!b->src) {
        box_read_zeros(b, lo, hi, reply, off);
        return true;
    }
    if (!b->packed)
        return box_gather(b, lo, hi, reply, off, err);
    box_rows_init(&r, b, lo);
    if (r.in + (hi - lo) <= r.len) {
        (void)box_rows_take(&r, hi - lo, &at);
        return zf_source_pread(b->src, reply + (at - off), (size_t)(hi - lo), b->off + lo, err);
    }
    if (r.len >= SHORT_ROW)
        return box_read_scattered(b, lo, hi, reply, off, err);
    return box_read_copied(b, lo, hi, reply, off, scratch, err);
}
