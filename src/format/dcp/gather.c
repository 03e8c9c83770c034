/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <zf/base/num.h>

#include "gather.h"

#define DIMS ZF_DCP_GATHER_DIMS
#define BLOCK (1u << 20) /* bytes read at once */
#define THIN 16          /* a block may hold so many times what is wanted of it */

struct gather {
    struct zf_source base;
    struct zf_source *src;
    uint64_t off_elems;
    uint32_t elem, ndim;
    uint64_t shape[DIMS], stride[DIMS], packed[DIMS]; /* elements */
    uint32_t by_stride[DIMS];                         /* dimensions, nearest neighbours first */
};

/* A box of the tensor and where its packed elements go. */
struct box {
    uint64_t start[DIMS], size[DIMS];
    uint8_t *out;
};

/* Counts `at` up inside `size` over dims[n], the first one fastest; false after the last. */
static bool step(uint64_t *at, const uint64_t *size, const uint32_t *dims, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (++at[dims[i]] < size[dims[i]]) {
            return true;
        }
        at[dims[i]] = 0;
    }
    return false;
}

/* How many dimensions of by_stride one block can take in;
 * *span_out = its elements in the storage. */
static uint32_t block_dims(const struct gather *g, const struct box *b, uint64_t *span_out)
{
    uint64_t span = 1, wanted = 1;
    uint32_t n = 0;

    for (; n < g->ndim; n++) {
        uint32_t d = g->by_stride[n];
        uint64_t more = span + (b->size[d] - 1) * g->stride[d];

        if (more * g->elem > BLOCK || more / THIN > wanted * b->size[d]) {
            break;
        }
        span = more;
        wanted *= b->size[d];
    }
    *span_out = span;
    return n;
}

static bool read_box(struct gather *g, const struct box *b, uint8_t *block, struct zf_err *err)
{
    uint64_t at[DIMS] = {0}, to[DIMS], span, from;
    uint32_t inner = block_dims(g, b, &span);

    zf_packed_strides(g->ndim, b->size, to);
    do {
        from = g->off_elems;
        for (uint32_t d = 0; d < g->ndim; d++) {
            from += (b->start[d] + at[d]) * g->stride[d];
        }
        if (!zf_source_pread(g->src, block, span * g->elem, from * g->elem, err)) {
            return false;
        }
        do {
            uint64_t in = 0, out = 0;

            for (uint32_t d = 0; d < g->ndim; d++) {
                out += at[d] * to[d];
            }
            for (uint32_t i = 0; i < inner; i++) {
                in += at[g->by_stride[i]] * g->stride[g->by_stride[i]];
            }
            memcpy(b->out + out * g->elem, block + in * g->elem, g->elem);
        } while (step(at, b->size, g->by_stride, inner));
    } while (step(at, b->size, g->by_stride + inner, g->ndim - inner));
    return true;
}

/* Reads the elements [first, end) in C order:
 * cut into the few boxes that a range of them is made of. */
static bool read_range(struct gather *g, uint8_t *out, uint64_t first, uint64_t end, uint8_t *block,
                       struct zf_err *err)
{
    while (first < end) {
        struct box b = {.out = out};
        uint64_t rest = first, n;
        uint32_t cut = 0;

        while (first % g->packed[cut] || end - first < g->packed[cut]) {
            cut++; /* ends: the last dimension is packed with stride 1 */
        }
        for (uint32_t d = 0; d < g->ndim; d++) {
            b.start[d] = rest / g->packed[d];
            rest %= g->packed[d];
            b.size[d] = d < cut ? 1 : g->shape[d];
        }
        n = (end - first) / g->packed[cut];
        b.size[cut] = n < g->shape[cut] - b.start[cut] ? n : g->shape[cut] - b.start[cut];
        if (!read_box(g, &b, block, err)) {
            return false;
        }
        n = b.size[cut] * g->packed[cut];
        first += n;
        out += n * g->elem;
    }
    return true;
}

static bool gather_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    struct gather *g = (struct gather *)s;
    uint64_t first = off / g->elem, end = (off + n + g->elem - 1) / g->elem;
    zf_auto(mem) uint8_t *block = malloc(BLOCK);
    zf_auto(mem) uint8_t *whole = NULL;

    if (!block) {
        return zf_fail(err, ZF_E_NOMEM, off, "no memory to read a strided tensor");
    }
    if (off % g->elem == 0 && n % g->elem == 0) {
        return read_range(g, buf, first, end, block, err);
    }
    whole = malloc((end - first) * g->elem);
    if (!whole) {
        return zf_fail(err, ZF_E_NOMEM, off, "no memory to read a strided tensor");
    }
    if (!read_range(g, whole, first, end, block, err)) {
        return false;
    }
    memcpy(buf, whole + (off - first * g->elem), n);
    return true;
}

static void gather_fini(struct zf_source *s)
{
    struct gather *g = (struct gather *)s;

    zf_source_unref(&g->src);
    zf_source_fini(s);
    free(g);
}

static const struct zf_source_ops gather_ops = {
    .kind = "strided",
    .pread = gather_pread,
    .fini = gather_fini,
};

static void sort_by_stride(struct gather *g)
{
    for (uint32_t n = 0; n < g->ndim; n++) {
        uint32_t i = n;

        for (; i > 0 && g->stride[g->by_stride[i - 1]] > g->stride[n]; i--) {
            g->by_stride[i] = g->by_stride[i - 1];
        }
        g->by_stride[i] = n;
    }
}

struct zf_source *zf_dcp_gather_new(struct zf_dcp_strided from, struct zf_err *err)
{
    struct gather *g = NULL;
    uint64_t elems, bytes;

    if (from.ndim == 0 || from.ndim > DIMS) {
        zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                "a strided tensor of %u dimensions, expected 1 … %d", from.ndim, DIMS);
        return NULL;
    }
    if (!zf_elems(from.ndim, from.shape, &elems) || !zf_mul(elems, from.elem_bytes, &bytes)) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a strided tensor whose size overflows");
        return NULL;
    }
    g = calloc(1, sizeof *g);
    if (!g) {
        zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for a strided tensor");
        return NULL;
    }
    if (!zf_source_init(&g->base, &gather_ops, from.src->name, bytes, err)) {
        free(g);
        return NULL;
    }
    g->src = zf_source_ref(from.src);
    g->off_elems = from.off_elems;
    g->elem = from.elem_bytes;
    g->ndim = from.ndim;
    memcpy(g->shape, from.shape, from.ndim * sizeof *from.shape);
    memcpy(g->stride, from.stride, from.ndim * sizeof *from.stride);
    zf_packed_strides(g->ndim, g->shape, g->packed);
    sort_by_stride(g);
    return &g->base;
}
