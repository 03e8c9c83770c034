/* SPDX-License-Identifier: Apache-2.0 */
/* Random layouts against brute force: every element of a tensor is put somewhere by a slow loop,
 * and the map must find it there. */
#include "support/unit.h"

#include <stdlib.h>

#include <zf/model/build.h>

#define LAYOUTS 20000
#define MAX_BOXES 64
#define SOURCES 3
#define SOURCE_BYTES (1u << 20)

static uint64_t seed = 20240229;

static uint64_t rnd(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

struct box {
    uint64_t start[4], size[4], stride[4];
    bool packed, zeros;
    uint32_t src;
    uint64_t off;
};

struct layout {
    uint32_t nd, esize;
    enum zf_dtype dtype;
    uint64_t shape[4], bytes;
    uint32_t n;
    struct box box[MAX_BOXES];
    unsigned char *want;
    unsigned char *data[SOURCES];
    uint64_t used[SOURCES];
};

/* Cuts boxes in two until there are enough: irregular, but a partition. */
static void cut_up(struct layout *l)
{
    uint64_t want = 1 + rnd(rnd(4) ? 6 : MAX_BOXES);

    l->n = 1;
    memset(&l->box[0], 0, sizeof l->box[0]);
    memcpy(l->box[0].size, l->shape, sizeof l->shape);
    for (uint64_t tries = 0; l->n < want && tries < 200; tries++) {
        struct box *b = &l->box[rnd(l->n)];
        uint32_t d = (uint32_t)rnd(l->nd ? l->nd : 1);

        if (l->nd == 0 || b->size[d] < 2)
            continue;
        uint64_t at = 1 + rnd(b->size[d] - 1);
        struct box *c = &l->box[l->n++];
        *c = *b;
        c->start[d] += at;
        c->size[d] -= at;
        b->size[d] = at;
    }
    for (uint32_t i = l->n; i > 1; i--) {
        uint64_t j = rnd(i);
        struct box t = l->box[i - 1];

        l->box[i - 1] = l->box[j];
        l->box[j] = t;
    }
}

/* Chooses where a box stands: packed, padded, Fortran order, any order with padding. */
static void place(struct layout *l, struct box *b)
{
    uint32_t order[4] = {0, 1, 2, 3};
    uint64_t kind = rnd(5), n = 1, pad = kind == 2 || kind == 4 ? 3 : 1;

    b->src = (uint32_t)rnd(SOURCES);
    b->packed = kind < 2;
    b->zeros = rnd(20) == 0;
    if (kind == 3) {
        for (uint32_t d = 0; d < l->nd; d++)
            order[d] = l->nd - 1 - d;
    } else if (kind == 4) {
        for (uint32_t d = l->nd; d > 1; d--) {
            uint64_t j = rnd(d);
            uint32_t t = order[d - 1];

            order[d - 1] = order[j];
            order[j] = t;
        }
    }
    for (uint32_t k = l->nd; k-- > 0;) {
        b->stride[order[k]] = n;
        n *= b->size[order[k]] + (pad > 1 ? rnd(pad) : 0);
    }
    b->off = l->used[b->src] + rnd(9);
    l->used[b->src] = b->off + n * l->esize;
    assert_true(l->used[b->src] <= SOURCE_BYTES);
}

static void write_box(struct layout *l, const struct box *b)
{
    uint64_t idx[4] = {0}, n = 1;

    for (uint32_t d = 0; d < l->nd; d++)
        n *= b->size[d];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t rest = i, at = 0, from = 0;

        for (uint32_t d = l->nd; d-- > 0;) {
            idx[d] = rest % b->size[d];
            rest /= b->size[d];
        }
        for (uint32_t d = 0; d < l->nd; d++) {
            at = at * l->shape[d] + b->start[d] + idx[d];
            from += idx[d] * b->stride[d];
        }
        unsigned char *want = l->want + at * l->esize;
        if (b->zeros)
            memset(want, 0, l->esize);
        else
            memcpy(l->data[b->src] + b->off + from * l->esize, want, l->esize);
    }
}

static void make(struct layout *l)
{
    static const enum zf_dtype types[] = {ZF_DT_U8, ZF_DT_BF16, ZF_DT_F32, ZF_DT_F64, ZF_DT_C128};

    l->nd = (uint32_t)rnd(20) ? 1 + (uint32_t)rnd(4) : 0;
    l->dtype = types[rnd(5)];
    l->esize = zf_dtype_info(l->dtype)->bytes;
    l->bytes = l->esize;
    for (uint32_t d = 0; d < 4; d++) {
        l->shape[d] = d < l->nd ? 1 + rnd(l->nd == 1 ? 60 : 9) : 1;
        l->bytes *= l->shape[d];
    }
    for (uint64_t i = 0; i < l->bytes; i++)
        l->want[i] = (unsigned char)rnd(256);
    memset(l->used, 0, sizeof l->used);
    cut_up(l);
    for (uint32_t i = 0; i < l->n; i++) {
        place(l, &l->box[i]);
        write_box(l, &l->box[i]);
    }
}

static struct zf_checkpoint *seal(const struct layout *l, struct zf_source *const *src,
                                  uint64_t cells, bool degraded, const struct box *box, uint32_t n,
                                  struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();

    lim.grid_cells = cells;
    struct zf_build *b = zf_build_new(NULL, &lim, degraded, err);
    assert_non_null(b);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                         (struct zf_type){l->dtype, l->nd, l->shape}, err);
    assert_non_null(d);
    assert_ok(zf_draft_where(d, "meta!w", err), err);
    for (uint32_t i = 0; i < n; i++) {
        struct zf_from from = {.src = box[i].zeros ? NULL : src[box[i].src],
                               .off = box[i].off,
                               .stride = box[i].packed ? NULL : box[i].stride};

        assert_ok(zf_draft_box(d, box[i].start, box[i].size, from, err), err);
    }
    return zf_build_seal(b, "test", "random", err);
}

static void check_runs(const struct layout *l, const struct zf_map *m)
{
    for (uint64_t off = 0; off < l->bytes; off += 1 + rnd(3)) {
        struct zf_run r = zf_map_at(m, off);
        unsigned char got[600];
        struct zf_err err;

        assert_true(r.len > 0 && r.len <= l->bytes - off);
        uint64_t k = r.len < sizeof got ? r.len : sizeof got;
        if (r.kind == ZF_RUN_ZERO) {
            memset(got, 0, sizeof got);
        } else {
            assert_int_equal(r.kind, ZF_RUN_SRC);
            assert_ok(zf_source_pread(r.src, got, (size_t)k, r.off, &err), &err);
        }
        assert_memory_equal(got, l->want + off, (size_t)k);
    }
}

static void check_reads(const struct layout *l, const struct zf_map *m)
{
    unsigned char *got = malloc(l->bytes + 2);
    struct zf_err err;

    assert_non_null(got);
    assert_int_equal(zf_map_size(m), l->bytes);
    for (int i = 0; i < 8; i++) {
        uint64_t off = i ? rnd(l->bytes) : 0, n = i ? 1 + rnd(l->bytes - off) : l->bytes;

        got[0] = got[n + 1] = 0x5a;
        assert_ok(zf_map_read(m, got + 1, (size_t)n, off, &err), &err);
        assert_memory_equal(got + 1, l->want + off, (size_t)n);
        assert_int_equal(got[0], 0x5a);
        assert_int_equal(got[n + 1], 0x5a);
    }
    free(got);
}

/* What is told beforehand of a read. */
struct told {
    struct layout *l;
    struct zf_source *const *src;
    unsigned char
        *bytes[SOURCES]; /* copies of the sources, with nothing in them but what was told */
    uint64_t n;
};

static bool note_range(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    struct told *t = ctx;

    for (int i = 0; i < SOURCES; i++) {
        if (t->src[i] == s) {
            assert_true(off <= s->size && len <= s->size - off && len > 0);
            memcpy(t->bytes[i] + off, t->l->data[i] + off, len);
        }
    }
    t->n += len;
    return true;
}

static void swap_bytes(struct told *t)
{
    for (int i = 0; i < SOURCES; i++) {
        for (uint64_t k = 0; k < t->l->used[i]; k++) {
            unsigned char b = t->l->data[i][k];

            t->l->data[i][k] = t->bytes[i][k];
            t->bytes[i][k] = b;
        }
    }
}

/* A read that finds nothing but what was told beforehand is right; of packed boxes no byte more was. */
static void check_ranges(struct layout *l, struct zf_source *const *src, const struct zf_map *m)
{
    struct told t = {.l = l, .src = src};
    uint64_t off = rnd(l->bytes), n = 1 + rnd(l->bytes - off + 3), have = l->bytes - off;
    bool packed = true, stuffed = false;
    struct zf_err err;

    for (int i = 0; i < SOURCES; i++)
        if (l->used[i] > 60000)
            return; /* of what is scattered over more, nothing may be told */
    unsigned char *got = malloc(l->bytes);
    assert_non_null(got);
    for (int i = 0; i < SOURCES; i++) {
        t.bytes[i] = malloc(SOURCE_BYTES);
        assert_non_null(t.bytes[i]);
        memset(t.bytes[i], 0xee, l->used[i]);
    }
    for (uint32_t i = 0; i < l->n; i++) {
        packed = packed && l->box[i].packed;
        stuffed = stuffed || l->box[i].zeros;
    }
    assert_true(zf_map_each_range(m, off, n, note_range, &t));
    have = n < have ? n : have;
    assert_true(!packed || (stuffed ? t.n <= have : t.n == have));
    swap_bytes(&t);
    assert_ok(zf_map_read(m, got, (size_t)have, off, &err), &err);
    swap_bytes(&t);
    assert_memory_equal(got, l->want + off, (size_t)have);
    for (int i = 0; i < SOURCES; i++)
        free(t.bytes[i]);
    free(got);
}

/* With a box taken away or added, a strict seal refuses, and a degraded one serves all else. */
static void check_damage(struct layout *l, struct zf_source *const *src, uint64_t cells)
{
    struct box box[MAX_BOXES + 1];
    uint32_t at = (uint32_t)rnd(l->n), n = l->n;
    bool twice = rnd(2);
    struct zf_err err;

    memcpy(box, l->box, n * sizeof *box);
    if (twice)
        box[n++] = box[at];
    else
        box[at] = box[--n];
    assert_null(seal(l, src, cells, false, box, n, &err));
    assert_int_equal(err.code, ZF_E_FORMAT);
    assert_non_null(strstr(err.msg, twice ? "more than one piece" : "nothing"));
    assert_non_null(strstr(err.msg, "tensor \"w\""));
    assert_string_equal(err.path, "meta!w");

    zf_auto(checkpoint) struct zf_checkpoint *c = seal(l, src, cells, true, box, n, &err);
    assert_non_null(c);
    assert_true(c->set[0].tensor[0].lost);
    assert_int_equal(c->n_notes, 1);
    const struct box *lost = &l->box[at];
    for (uint64_t e = 0; e < l->bytes / l->esize; e++) {
        uint64_t rest = e;
        bool in = true;
        unsigned char got[16];

        for (uint32_t d = l->nd; d-- > 0;) {
            uint64_t x = rest % l->shape[d];

            in = in && x >= lost->start[d] && x - lost->start[d] < lost->size[d];
            rest /= l->shape[d];
        }
        bool ok = zf_map_read(c->set[0].tensor[0].data, got, l->esize, e * l->esize, &err);
        assert_int_equal(ok, !in);
        if (ok)
            assert_memory_equal(got, l->want + e * l->esize, l->esize);
        else
            assert_int_equal(err.code, ZF_E_IO);
    }
}

static void random_boxes(void **state)
{
    struct layout *l = calloc(1, sizeof *l);
    struct zf_source *src[SOURCES];
    struct zf_err err;

    (void)state;
    assert_non_null(l);
    l->want = malloc(9 * 9 * 9 * 9 * 16);
    for (int i = 0; i < SOURCES; i++) {
        l->data[i] = malloc(SOURCE_BYTES);
        src[i] = zf_mem_new("shard", l->data[i], SOURCE_BYTES, true, &err);
        assert_non_null(src[i]);
    }
    for (int i = 0; i < LAYOUTS; i++) {
        uint64_t cells = rnd(3) ? 1u << 20 : 1 + rnd(4);

        make(l);
        zf_auto(checkpoint) struct zf_checkpoint *c =
            seal(l, src, cells, false, l->box, l->n, &err);
        assert_ok(c, &err);
        check_reads(l, c->set[0].tensor[0].data);
        check_ranges(l, src, c->set[0].tensor[0].data);
        if (i % 4 == 0) {
            check_runs(l, c->set[0].tensor[0].data);
            check_damage(l, src, cells);
        }
    }
    for (int i = 0; i < SOURCES; i++)
        zf_source_unref(&src[i]);
    free(l->want);
    free(l);
}

static void random_slices(void **state)
{
    unsigned char *data = malloc(65536), got[4096];
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;

    (void)state;
    for (int i = 0; i < 65536; i++)
        data[i] = (unsigned char)rnd(256);
    zf_auto(source) struct zf_source *src = zf_mem_new("shard", data, 65536, true, &err);
    assert_non_null(src);
    for (int round = 0; round < 5000; round++) {
        uint64_t n = 1 + rnd(1000), at = 0, first[64], len[64], off[64];
        uint32_t k = 0;
        unsigned char want[2000];

        while (at < n) {
            len[k] = k == 63 ? n - at : 1 + rnd(n - at);
            first[k] = at;
            off[k] = rnd(4) || k == 0 ? rnd(60000) : off[k - 1] + 2 * len[k - 1];
            memcpy(want + 2 * at, data + off[k], 2 * len[k]);
            at += len[k++];
        }
        struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
        struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                             (struct zf_type){ZF_DT_F16, 1, &n}, &err);
        for (uint32_t i = 0, step = 7; i < k; i++) {
            uint32_t j = k % step ? (i * step) % k : i;

            assert_ok(zf_draft_flat(d, first[j], len[j],
                                    (struct zf_from){.src = src, .off = off[j]}, &err),
                      &err);
        }
        zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "test", "", &err);
        assert_ok(c, &err);
        for (int i = 0; i < 5; i++) {
            uint64_t from = rnd(2 * n), take = 1 + rnd(2 * n - from);

            assert_ok(zf_map_read(c->set[0].tensor[0].data, got, (size_t)take, from, &err), &err);
            assert_memory_equal(got, want + from, (size_t)take);
        }
    }
}

/* Takes data[n], which it fills. */
static struct zf_source *random_shard(unsigned char *data, size_t n)
{
    struct zf_err err;

    for (size_t i = 0; i < n; i++)
        data[i] = (unsigned char)rnd(256);
    struct zf_source *src = zf_mem_new("shard", data, n, true, &err);
    assert_non_null(src);
    return src;
}

/* Tensors whose dimensions are in another order, apart, or repeated (stride 0) in their storage. */
static void random_strided_sources(void **state)
{
    enum { STORAGE = 65536, DIMS = 6 };
    unsigned char *data = malloc(STORAGE), got[4096], want[4096];
    struct zf_err err;

    (void)state;
    zf_auto(source) struct zf_source *src = random_shard(data, STORAGE);
    for (int round = 0; round < 20000; round++) {
        static const enum zf_dtype dtypes[] = {ZF_DT_U8, ZF_DT_F16, ZF_DT_F32, ZF_DT_C128};
        enum zf_dtype dtype = dtypes[rnd(4)];
        uint64_t es = zf_dtype_info(dtype)->bytes, shape[DIMS], stride[DIMS], step = 1, n = 1;
        uint32_t nd = (uint32_t)rnd(DIMS + 1), dim[DIMS];

        for (uint32_t i = 0; i < nd; i++) {
            uint32_t k = (uint32_t)rnd(i + 1);

            dim[i] = dim[k];
            dim[k] = i;
        }
        for (uint32_t i = 0; i < nd; i++) {
            uint64_t most = 256 / n;

            shape[dim[i]] = rnd(3) ? 1 + rnd(most < 20 ? most : 20) : 1;
            stride[dim[i]] = rnd(9) ? step : 0;
            step *= shape[dim[i]] + (step < 20 ? rnd(3) : 0);
            n *= shape[dim[i]];
        }
        uint64_t off = es * rnd(8), bytes = n * es;
        if (off + step * es > STORAGE)
            continue;
        for (uint64_t e = 0; e < n; e++) {
            uint64_t rest = e, at = 0;

            for (uint32_t d = nd; d-- > 0;) {
                at += rest % shape[d] * stride[d];
                rest /= shape[d];
            }
            memcpy(want + e * es, data + off + at * es, es);
        }
        zf_auto(source) struct zf_source *s =
            zf_strided_new((struct zf_type){dtype, nd, shape},
                           (struct zf_from){.src = src, .off = off, .stride = stride}, &err);
        assert_ok(s, &err);
        assert_int_equal(s->size, bytes);
        for (int i = 0; i < 3; i++) {
            uint64_t from = rnd(bytes), take = 1 + rnd(bytes - from);

            assert_ok(zf_source_pread(s, got, (size_t)take, from, &err), &err);
            assert_memory_equal(got, want + from, (size_t)take);
        }
    }
}

/* Large enough for many tiles: dimensions in any order, elements of every size, columns near together and more than a
 * page apart, and reads that begin and end anywhere. */
static void large_turned_sources(void **state)
{
    enum { STORAGE = 8 << 20, DIMS = 3 };
    unsigned char *data = malloc(STORAGE), *want = malloc(STORAGE), *got = malloc(STORAGE);
    struct zf_err err;

    (void)state;
    zf_auto(source) struct zf_source *src = random_shard(data, STORAGE);
    for (int round = 0; round < 100; round++) {
        static const enum zf_dtype dtypes[] = {ZF_DT_U8, ZF_DT_F16, ZF_DT_F32, ZF_DT_F64,
                                               ZF_DT_C128};
        enum zf_dtype dtype = dtypes[round % 5];
        const uint64_t es = zf_dtype_info(dtype)->bytes, most[DIMS] = {300, 300, 1 + rnd(5)};
        uint64_t shape[DIMS], stride[DIMS], step = 1, bytes = es;
        uint32_t dim[DIMS] = {0, 1, 2}, k = (uint32_t)rnd(DIMS);

        dim[0] = k;
        dim[k] = 0;
        for (uint32_t i = 0; i < DIMS; i++) {
            shape[dim[i]] = 1 + rnd(most[dim[i]]);
            stride[dim[i]] = step;
            step *= shape[dim[i]];
            step += step * es < 2048 && rnd(2) ? rnd(6000) / es : 0;
            bytes *= shape[dim[i]];
        }
        if (step * es > STORAGE)
            continue;
        for (uint64_t e = 0; e < bytes / es; e++) {
            uint64_t at = e % shape[2] * stride[2] + e / shape[2] % shape[1] * stride[1] +
                          e / shape[2] / shape[1] * stride[0];

            memcpy(want + e * es, data + at * es, es);
        }
        zf_auto(source) struct zf_source *s =
            zf_strided_new((struct zf_type){dtype, DIMS, shape},
                           (struct zf_from){.src = src, .stride = stride}, &err);
        assert_ok(s, &err);
        for (int i = 0; i < 8; i++) {
            uint64_t from = i ? rnd(bytes) : 0, take = i ? 1 + rnd(bytes - from) : bytes;

            assert_ok(zf_source_pread(s, got, (size_t)take, from, &err), &err);
            assert_memory_equal(got, want + from, (size_t)take);
        }
    }
    free(want);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_boxes),
        cmocka_unit_test(random_slices),
        cmocka_unit_test(random_strided_sources),
        cmocka_unit_test(large_turned_sources),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
