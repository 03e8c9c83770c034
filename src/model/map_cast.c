/* SPDX-License-Identifier: Apache-2.0 */
/* A map whose elements are cast when they are read. */
#include <string.h>

#include <zf/base/buffer.h>
#include <zf/base/num.h>
#include <zf/model/cast.h>

#include "map_kind.h"

/* The number of bytes read before they are cast.  That exceeds the second-level cache, and is still
 * faster than smaller blocks, because a tensor in many chunks is then read in fewer calls. */
#define BLOCK ZF_BUFFER_BYTES

struct cast_map {
    struct zf_map map;
    const struct zf_map *in;
    enum zf_dtype from, to;
    uint32_t in_size, out_size; /* bytes of an element */
};

static struct zf_run cast_at(const struct zf_map *m, uint64_t off)
{
    return (struct zf_run){.kind = ZF_RUN_MADE, .len = m->size - off};
}

/* Part of one element: bytes [in, in + n) of element i. */
static bool map_cast_read_part(const struct cast_map *c, unsigned char *out, uint64_t i,
                               uint64_t in, size_t n, struct zf_err *err)
{
    unsigned char raw[8], done[8];

    if (!zf_map_read(c->in, raw, c->in_size, i * c->in_size, err))
        return false;
    zf_cast(done, c->to, raw, c->from, 1);
    memcpy(out, done + in, n);
    return true;
}

static bool map_cast_read_whole(const struct cast_map *c, unsigned char *out, uint64_t i,
                                uint64_t n, struct zf_err *err)
{
    zf_auto(buffer) struct zf_buffer *block = zf_buffer_take(BLOCK);

    if (!block)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    while (n > 0) {
        uint64_t k = BLOCK / c->in_size;

        k = n < k ? n : k;
        if (!zf_map_read(c->in, block->at, (size_t)(k * c->in_size), i * c->in_size, err))
            return false;
        zf_cast(out, c->to, block->at, c->from, (size_t)k);
        out += k * c->out_size;
        i += k;
        n -= k;
    }
    return true;
}

static bool cast_read(const struct zf_map *m, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    const struct cast_map *c = (const struct cast_map *)m;
    unsigned char *out = buf;
    uint64_t i = off / c->out_size, in = off % c->out_size;

    if (in > 0) {
        size_t k = c->out_size - in < n ? (size_t)(c->out_size - in) : n;

        if (!map_cast_read_part(c, out, i, in, k, err))
            return false;
        out += k;
        n -= k;
        i++;
    }
    uint64_t whole = n / c->out_size;
    size_t rest = n % c->out_size;
    if (!map_cast_read_whole(c, out, i, whole, err))
        return false;
    return rest == 0 || map_cast_read_part(c, out + whole * c->out_size, i + whole, 0, rest, err);
}

static bool cast_ranges(const struct zf_map *m, uint64_t off, uint64_t n, map_each_fn *fn,
                        void *ctx)
{
    const struct cast_map *c = (const struct cast_map *)m;
    const uint64_t first = off / c->out_size, end = (off + n - 1) / c->out_size + 1;

    return map_ranges(c->in, first * c->in_size, (end - first) * c->in_size, fn, ctx);
}

static const struct map_ops cast_ops = {
    .at = cast_at,
    .read = cast_read,
    .ranges = cast_ranges,
};

static bool map_cast_init(struct cast_map *c, const struct zf_map *in, enum zf_dtype from,
                          enum zf_dtype to, struct zf_err *err)
{
    uint32_t in_size = zf_dtype_info(from)->bytes, out_size = zf_dtype_info(to)->bytes;
    uint64_t size;

    if (!zf_mul(in->size / in_size, out_size, &size))
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the cast of a tensor exceeds 2^64 bytes");
    *c = (struct cast_map){.map = {.ops = &cast_ops, .size = size},
                           .in = in,
                           .from = from,
                           .to = to,
                           .in_size = in_size,
                           .out_size = out_size};
    return true;
}

struct zf_map *zf_map_of_cast(struct zf_arena *a, const struct zf_map *in, enum zf_dtype from,
                              enum zf_dtype to, struct zf_err *err)
{
    struct cast_map *c = zf_arena_get(a, 1, sizeof *c, err);

    return c && map_cast_init(c, in, from, to, err) ? &c->map : NULL;
}

bool zf_map_read_cast(const struct zf_map *m, enum zf_dtype from, enum zf_dtype to, void *buf,
                      size_t n, uint64_t off, struct zf_err *err)
{
    struct cast_map c;

    return map_cast_init(&c, m, from, to, err) && cast_read(&c.map, buf, n, off, err);
}

bool zf_map_read_cast_by(const struct zf_map *m, struct zf_cast_by how, void *buf, size_t n,
                         uint64_t off, struct zf_err *err)
{
    struct cast_map c;

    return map_cast_init(&c, m, how.from, how.by, err) &&
           zf_map_read_cast(&c.map, how.by, how.to, buf, n, off, err);
}
