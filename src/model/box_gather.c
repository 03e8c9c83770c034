/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes whose elements are not contiguous, or in another order, in the source: padded chunks, Fortran order,
 * transposed tensors.  The stretch that is wanted is cut into sub-boxes, and each is read in the
 * order of the *source*, in blocks that reach over small gaps, so that no element costs a read of
 * its own. */
#include <string.h>

#include "box.h"

/* A gap of up to a page is read along: skipping it would cost a system call, and the kernel has the
 * page in hand anyway. */
#define GAP 4096
/* 128 stretches of 2 KiB, each with its PAD: less than a buffer has, so that it stays in the second-level cache. */
#define BLOCK (264u << 10)
/* Longer stretches are as many as this where the room has place for them, 128 of 8 KiB: what is written of a row of a
 * transposed tensor is then a few cache lines that adjoin, which takes half the time of one or two. */
#define MANY 192
#define ROOM (ZF_BUFFER_BYTES + 128 * PAD)
/* Between stretches that are read apart: columns a power of two apart would all fall on the same
 * few lines of the first-level cache. */
#define PAD 64
/* Steps of a tiled axis are a multiple of this: then whole cache lines of the reply are copied, which no
 * second tile touches again. */
#define LINE 64
/* A reply of this many bytes is written past the processor's caches: its end would push its beginning out of them. */
#define PAST (4u << 20)

/* A dimension of the sub-box in the order of the source. */
struct axis {
    uint64_t n;    /* steps */
    uint64_t from; /* bytes of the source per step */
    uint64_t to;   /* bytes of the reply per step */
};

/* Cost of reading a sub-box. */
struct plan {
    struct axis axis[ZF_BOX_DIMS]; /* outermost first; the innermost are read in one block */
    uint32_t n;
    uint32_t block; /* axes from here on are inside a block */
    uint64_t run;   /* bytes that are contiguous in the source and in the reply */
    uint64_t span;  /* bytes of a block */
    uint64_t tile;  /* steps of axis[block - 1] that fit into one block; 1 = no tiling */
    /* … and are read each for itself, because what is between them is not worth reading */
    bool apart;
    bool past; /* the reply has PAST bytes or more */
    uint64_t src_off;
    unsigned char *dst;
    unsigned char *room; /* ROOM bytes, for one block at a time */
};

/* Sorts the axes by their step in the source, and joins those that go on in both. */
static void box_gather_order_axes(struct plan *p, const struct box *b, const uint64_t *extent)
{
    p->n = 0;
    p->run = extent[b->nd - 1];
    for (uint32_t d = 0; d + 1 < b->nd; d++) {
        struct axis a = {extent[d], b->stride[d], b->tensor_stride[d]};
        uint32_t i = p->n;

        if (a.n == 1)
            continue;
        for (; i > 0 && p->axis[i - 1].from < a.from; i--)
            p->axis[i] = p->axis[i - 1];
        p->axis[i] = a;
        p->n++;
    }
    while (p->n > 0 && p->axis[p->n - 1].from == p->run && p->axis[p->n - 1].to == p->run)
        p->run *= p->axis[--p->n].n;
}

static uint64_t box_gather_whole_lines(uint64_t steps)
{
    return steps > LINE ? steps / LINE * LINE : steps;
}

/* Chooses which axes are read in one block: as many as fit and leave no large gaps. */
static void box_gather_choose_block(struct plan *p)
{
    p->span = p->run;
    p->block = p->n;
    p->tile = 1;
    p->apart = false;
    while (p->block > 0) {
        const struct axis *a = &p->axis[p->block - 1];

        if (a->from > p->span && a->from - p->span > GAP) {
            const uint64_t room = ROOM / (p->span + PAD);
            uint64_t steps = BLOCK / (p->span + PAD);

            steps = steps < MANY ? (room < MANY ? room : MANY) : steps;
            p->apart = steps > 1;
            p->tile = steps > a->n ? a->n : p->apart ? box_gather_whole_lines(steps) : 1;
            return;
        }
        /* Steps of 0 (one element shown many times) or into the block itself change nothing here.
         */
        uint64_t fit = p->span > BLOCK ? 0 : (a->from ? (BLOCK - p->span) / a->from + 1 : a->n);
        if (fit < a->n) {
            p->tile = fit > 0 ? box_gather_whole_lines(fit) : 1;
            return;
        }
        p->span += (a->n - 1) * a->from;
        p->block--;
    }
}

static void box_gather_copy_axis(unsigned char *dst, const unsigned char *src, const struct axis *a,
                                 uint64_t run)
{
    switch (run) {
#define COPY(type)                                                                                 \
    for (uint64_t i = 0; i < a->n; i++)                                                            \
        memcpy(dst + i * a->to, src + i * a->from, sizeof(type));                                  \
    break
    case 1:
        COPY(uint8_t);
    case 2:
        COPY(uint16_t);
    case 4:
        COPY(uint32_t);
    case 8:
        COPY(uint64_t);
    default:
        for (uint64_t i = 0; i < a->n; i++)
            memcpy(dst + i * a->to, src + i * a->from, (size_t)run);
#undef COPY
    }
}

/* Is what the last axis goes through in the reply the columns of a matrix, whose rows another axis
 * goes through in the block?  That one becomes the last but one. */
static bool box_gather_find_matrix(struct axis *axis, uint32_t n, uint64_t run)
{
    if (n < 2 || !turn_can(run) || axis[n - 1].to != run)
        return false;
    for (uint32_t i = n - 1; i-- > 0;) {
        if (axis[i].from == run) {
            const struct axis rows = axis[i];

            memmove(&axis[i], &axis[i + 1], (n - 2 - i) * sizeof *axis);
            axis[n - 2] = rows;
            return true;
        }
    }
    return false;
}

/* Copies what axes[0 .. n) span out of a block: the innermost one or two at a time. */
static void box_gather_copy_out(unsigned char *dst, const unsigned char *src, struct axis *axis,
                                uint32_t n, uint64_t run, bool past)
{
    const bool matrix = box_gather_find_matrix(axis, n, run);
    const struct axis *in = &axis[n - (matrix ? 2 : 1)];
    uint64_t idx[ZF_BOX_DIMS] = {0};

    for (;;) {
        uint32_t d = (uint32_t)(in - axis);

        if (matrix) {
            turn_matrix(&(struct turn){.to = dst,
                                       .from = src,
                                       .to_pitch = in[0].to,
                                       .from_pitch = in[1].from,
                                       .rows = in[0].n,
                                       .cols = in[1].n,
                                       .past = past},
                        run);
        } else {
            box_gather_copy_axis(dst, src, in, run);
        }
        for (; d > 0; d--) {
            const struct axis *a = &axis[d - 1];

            dst += a->to;
            src += a->from;
            if (++idx[d - 1] < a->n)
                break;
            dst -= a->n * a->to;
            src -= a->n * a->from;
            idx[d - 1] = 0;
        }
        if (d == 0)
            return;
    }
}

/* A block is copied in the order of the reply, so that each of its cache lines is written
 * once: the axis with the smallest step there becomes the innermost. */
static void box_gather_order_reply(struct axis *axis, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        struct axis a = axis[i];
        uint32_t at = i;

        for (; at > 0 && axis[at - 1].to < a.to; at--)
            axis[at] = axis[at - 1];
        axis[at] = a;
    }
}

/* Reads one block: `steps` of the tiled axis and everything inside it. */
static bool box_gather_read_block(const struct box *b, const struct plan *p, uint64_t steps,
                                  uint64_t src_off, unsigned char *dst, struct zf_err *err)
{
    struct axis axis[ZF_BOX_DIMS];
    uint32_t n = 0;
    uint64_t span = p->span, pitch = p->span + PAD;

    if (steps > 1) {
        axis[n] = p->axis[p->block - 1];
        axis[n].n = steps;
        if (p->apart)
            axis[n].from = pitch;
        else
            span += (steps - 1) * axis[n].from;
        n++;
    }
    for (uint32_t i = p->block; i < p->n; i++)
        axis[n++] = p->axis[i];
    if (n == 0)
        return zf_source_pread(b->src, dst, (size_t)p->run, src_off, err);
    const struct zf_rows rows = {.buf = p->room,
                                 .n = (size_t)span,
                                 .pitch = (size_t)pitch,
                                 .off = src_off,
                                 .step = p->apart && steps > 1 ? p->axis[p->block - 1].from : 0,
                                 .count = p->apart ? steps : 1};
    if (!zf_source_read_rows(b->src, &rows, err))
        return false;
    box_gather_order_reply(axis, n);
    box_gather_copy_out(dst, p->room, axis, n, p->run, p->past);
    return true;
}

static bool box_gather_read_tiles(const struct box *b, const struct plan *p, uint64_t src_off,
                                  unsigned char *dst, struct zf_err *err)
{
    if (p->block == 0)
        return box_gather_read_block(b, p, 1, src_off, dst, err);
    const struct axis *a = &p->axis[p->block - 1];
    for (uint64_t i = 0; i < a->n; i += p->tile) {
        uint64_t steps = a->n - i < p->tile ? a->n - i : p->tile;

        if (!box_gather_read_block(b, p, steps, src_off + i * a->from, dst + i * a->to, err))
            return false;
    }
    return true;
}

/* Walks the axes outside the tiled one. */
static bool box_gather_read_plan(const struct box *b, const struct plan *p, struct zf_err *err)
{
    uint64_t idx[ZF_BOX_DIMS] = {0}, src_off = p->src_off;
    unsigned char *dst = p->dst;
    uint32_t outer = p->block > 0 ? p->block - 1 : 0;

    for (;;) {
        uint32_t d = outer;

        if (!box_gather_read_tiles(b, p, src_off, dst, err))
            return false;
        for (; d > 0; d--) {
            const struct axis *a = &p->axis[d - 1];

            dst += a->to;
            src_off += a->from;
            if (++idx[d - 1] < a->n)
                break;
            dst -= a->n * a->to;
            src_off -= a->n * a->from;
            idx[d - 1] = 0;
        }
        if (d == 0)
            return true;
    }
}

bool box_gather(const struct box *b, uint64_t lo, uint64_t hi, unsigned char *reply, uint64_t off,
                struct zf_err *err)
{
    uint64_t idx[ZF_BOX_DIMS], extent[ZF_BOX_DIMS];
    zf_auto(buffer) struct zf_buffer *room = zf_buffer_take(ROOM);
    struct plan p;

    if (!room)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    p.room = (unsigned char *)room->at;
    p.past = hi - lo >= PAST;
    while (lo < hi) {
        uint64_t n = zf_box_sub(b->nd, b->size, lo, hi - lo, idx, extent), at = 0;

        p.src_off = b->off;
        for (uint32_t d = 0; d < b->nd; d++) {
            p.src_off += idx[d] * b->stride[d];
            at += (b->start[d] + idx[d]) * b->tensor_stride[d];
        }
        p.dst = reply + (at - off);
        box_gather_order_axes(&p, b, extent);
        box_gather_choose_block(&p);
        if (!box_gather_read_plan(b, &p, err))
            return false;
        lo += n;
    }
    return true;
}
