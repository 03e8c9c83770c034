/* SPDX-License-Identifier: Apache-2.0 */
/* What reading costs: how often sources are asked, for how many bytes, and how much memory a map
 * takes. */
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <zf/model/build.h>
#include <zf/model/cast.h>

#include "../../../src/model/map_kind.h"

static struct zf_err err;

/* ---- a source that counts, and whose bytes are known -------------------------------------- */

static atomic_ullong n_calls, n_bytes, n_scattered;

static unsigned char byte_at(uint64_t off)
{
    return (unsigned char)((off * 0x9e3779b97f4a7c15u) >> 56);
}

static bool counting_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *e)
{
    unsigned char *p = buf;

    (void)s, (void)e;
    n_calls++;
    n_bytes += n;
    for (size_t i = 0; i < n; i++)
        p[i] = byte_at(off + i);
    return true;
}

static bool counting_preadv(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                            struct zf_err *e)
{
    n_calls++;
    n_scattered++;
    for (int i = 0; i < n_iov; i++) {
        n_calls--;
        (void)counting_pread(s, iov[i].iov_base, iov[i].iov_len, off, e);
        off += iov[i].iov_len;
    }
    return true;
}

static void counting_fini(struct zf_source *s)
{
    zf_source_fini(s);
    free(s);
}

static const struct zf_source_ops counting_ops = {
    .kind = "counting", .pread = counting_pread, .preadv = counting_preadv, .fini = counting_fini};

static struct zf_source *counting(uint64_t size)
{
    struct zf_source *s = calloc(1, sizeof *s);

    assert_ok(zf_source_init(s, &counting_ops, "shard", size, &err), &err);
    return s;
}

/* ---- a matrix in boxes of equal size ------------------------------------------------------ */

struct matrix {
    uint64_t shape[2], box[2];
    uint64_t stride[2]; /* of a box in its source, in elements; 0 = packed */
};

static struct zf_checkpoint *chunked(const struct matrix *m, struct zf_source *src)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                         (struct zf_type){ZF_DT_F32, 2, m->shape}, &err);
    uint64_t n = m->box[0] * m->box[1], off = 0;

    if (m->stride[0])
        n = (m->box[0] - 1) * m->stride[0] + (m->box[1] - 1) * m->stride[1] + 1;
    for (uint64_t r = 0; r < m->shape[0]; r += m->box[0]) {
        for (uint64_t c = 0; c < m->shape[1]; c += m->box[1], off += n * 4) {
            struct zf_from from = {
                .src = src, .off = off, .stride = m->stride[0] ? m->stride : NULL};

            assert_ok(zf_draft_box(d, (uint64_t[]){r, c}, m->box, from, &err), &err);
        }
    }
    struct zf_checkpoint *c = zf_build_seal(b, "test", "", &err);
    assert_ok(c, &err);
    return c;
}

static unsigned char want_at(const struct matrix *m, uint64_t byte)
{
    uint64_t r = byte / 4 / m->shape[1], c = byte / 4 % m->shape[1];
    uint64_t box = r / m->box[0] * (m->shape[1] / m->box[1]) + c / m->box[1];
    uint64_t s0 = m->stride[0] ? m->stride[0] : m->box[1], s1 = m->stride[0] ? m->stride[1] : 1;
    uint64_t n = (m->box[0] - 1) * s0 + (m->box[1] - 1) * s1 + 1;

    return byte_at((box * n + r % m->box[0] * s0 + c % m->box[1] * s1) * 4 + byte % 4);
}

static void read_and_check(const struct matrix *m, const struct zf_map *map, uint64_t off, size_t n)
{
    unsigned char *got = malloc(n);

    n_calls = n_bytes = n_scattered = 0;
    assert_ok(zf_map_read(map, got, n, off, &err), &err);
    for (size_t i = 0; i < n; i++)
        if (got[i] != want_at(m, off + i))
            fail_msg("byte %zu of a read at %llu is wrong", i, (unsigned long long)off);
    free(got);
}

/* ---- tests -------------------------------------------------------------------------------- */

static void one_read_a_chunk(void **state)
{
    /* Eight column shards with rows of 2 KiB, as tensor parallelism leaves them. */
    const struct matrix m = {{4096, 4096}, {4096, 512}, {0, 0}};
    zf_auto(source) struct zf_source *src = counting(4096 * 4096 * 4);
    zf_auto(checkpoint) struct zf_checkpoint *c = chunked(&m, src);
    const struct zf_map *map = c->set[0].tensor[0].data;

    (void)state;
    read_and_check(&m, map, 0, 1u << 20);
    assert_int_equal(n_calls, 8);
    assert_int_equal(n_bytes, 1u << 20);
    read_and_check(&m, map, 12345, 1u << 20); /* begins and ends inside rows */
    assert_int_equal(n_calls, 8);
    assert_int_equal(n_bytes, 1u << 20);
    read_and_check(&m, map, 5000, 100);
    assert_int_equal(n_calls, 1);
    assert_int_equal(n_bytes, 100);
    read_and_check(&m, map, 16384 - 50,
                   100); /* from the end of a row to the beginning of the next */
    assert_int_equal(n_calls, 2);
    assert_int_equal(n_bytes, 100);
}

static void short_rows_are_read_in_blocks(void **state)
{
    const struct matrix m = {{4096, 256}, {4096, 8}, {0, 0}};
    zf_auto(source) struct zf_source *src = counting(4096 * 256 * 4);
    zf_auto(checkpoint) struct zf_checkpoint *c = chunked(&m, src);

    (void)state;
    read_and_check(&m, c->set[0].tensor[0].data, 77, 1u << 20);
    assert_int_equal(n_calls, 32);
    assert_int_equal(n_bytes, 1u << 20);
}

/* Above 2 KiB the source is asked to scatter rows; below that it costs more than copying them. */
static void which_rows_are_scattered(void **state)
{
    const struct matrix shorter = {{4096, 2044}, {4096, 511}, {0, 0}};
    const struct matrix longer = {{4096, 2048}, {4096, 512}, {0, 0}};
    zf_auto(source) struct zf_source *src = counting(4096 * 2048 * 4);
    zf_auto(checkpoint) struct zf_checkpoint *s = chunked(&shorter, src);
    zf_auto(checkpoint) struct zf_checkpoint *l = chunked(&longer, src);

    (void)state;
    read_and_check(&shorter, s->set[0].tensor[0].data, 0, 1u << 20);
    assert_int_equal(n_calls, 4);
    assert_int_equal(n_scattered, 0);
    read_and_check(&longer, l->set[0].tensor[0].data, 0, 1u << 20);
    assert_int_equal(n_calls, 4);
    assert_int_equal(n_scattered, 4);
}

/* Whatever is read of each chunk, and though there is less room than is asked for. */
static void short_rows_of_any_read(void **state)
{
    const struct matrix few = {{8192, 192}, {8192, 96}, {0, 0}};
    const struct matrix many = {{1024, 1536}, {1024, 2}, {0, 0}};
    zf_auto(source) struct zf_source *src = counting(8192 * 192 * 4);
    zf_auto(checkpoint) struct zf_checkpoint *f = chunked(&few, src);
    zf_auto(checkpoint) struct zf_checkpoint *m = chunked(&many, src);

    (void)state;
    for (size_t n = 3000; n < 5u << 20; n = n * 2 + 777) {
        read_and_check(&few, f->set[0].tensor[0].data, 999, n);
        read_and_check(&many, m->set[0].tensor[0].data, 999, n);
        assert_int_equal(n_bytes, n);
    }
}

static void strides_are_gathered_in_blocks(void **state)
{
    /* Two shards in Fortran order: neighbours of a row stand 256 bytes apart. */
    const struct matrix fortran = {{64, 64}, {64, 32}, {1, 64}};
    /* Chunks whose rows are padded by a few elements. */
    const struct matrix padded = {{64, 64}, {32, 32}, {40, 1}};
    zf_auto(source) struct zf_source *src = counting(1u << 20);
    zf_auto(checkpoint) struct zf_checkpoint *f = chunked(&fortran, src);
    zf_auto(checkpoint) struct zf_checkpoint *p = chunked(&padded, src);

    (void)state;
    read_and_check(&fortran, f->set[0].tensor[0].data, 0, 64 * 64 * 4);
    assert_true(n_calls <= 2);
    assert_true(n_bytes <= 64 * 64 * 4);
    read_and_check(&fortran, f->set[0].tensor[0].data, 10 * 256, 256);
    assert_true(n_calls <= 2);
    read_and_check(&padded, p->set[0].tensor[0].data, 0, 64 * 64 * 4);
    assert_true(n_calls <= 4);
    assert_true(n_bytes <= 4 * 32 * 40 * 4);
}

struct narrow {
    const struct zf_map *map;
    unsigned char *got;
    size_t n;
    bool ok;
};

static void *read_all(void *arg)
{
    struct narrow *r = arg;
    struct zf_err e;

    r->ok = zf_map_read(r->map, r->got, r->n, 0, &e);
    return NULL;
}

/* A thread has 128 KiB with musl, unless somebody says otherwise. */
static void strides_are_gathered_on_a_small_stack(void **state)
{
    const struct matrix m = {{1024, 128}, {1024, 128}, {1, 1024}};
    zf_auto(source) struct zf_source *src = counting(1u << 20);
    zf_auto(checkpoint) struct zf_checkpoint *c = chunked(&m, src);
    unsigned char got[1024];
    struct narrow r = {c->set[0].tensor[0].data, malloc(512 << 10), 512 << 10, false};
    pthread_attr_t small;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 128 << 10), 0);
    assert_int_equal(pthread_create(&thread, &small, read_all, &r), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)pthread_attr_destroy(&small);
    assert_true(r.ok);
    for (size_t at = 0; at < r.n; at += sizeof got) {
        for (size_t i = 0; i < sizeof got; i++)
            got[i] = want_at(&m, at + i);
        assert_memory_equal(r.got + at, got, sizeof got);
    }
    free(r.got);
}

static void far_strides_read_no_more_than_asked(void **state)
{
    /* 16 KiB between neighbours: reading along would cost 4096 times what is wanted. */
    const struct matrix m = {{4096, 16}, {4096, 8}, {1, 4096}};
    zf_auto(source) struct zf_source *src = counting(4096 * 16 * 4);
    zf_auto(checkpoint) struct zf_checkpoint *c = chunked(&m, src);

    (void)state;
    read_and_check(&m, c->set[0].tensor[0].data, 64, 64);
    assert_true(n_bytes <= 64);
}

/* Four far strides: no two axes go into one block, and every one is begun anew by the one outside it. */
static void far_axes_are_walked_in_order(void **state)
{
    const uint64_t shape[4] = {3, 3, 2, 3}, stride[4] = {100000, 30000, 9000, 2500}, at[4] = {0};
    zf_auto(source) struct zf_source *src = counting(1u << 21);
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                         (struct zf_type){ZF_DT_F32, 4, shape}, &err);
    unsigned char got[3 * 3 * 2 * 3 * 4];

    (void)state;
    assert_ok(
        zf_draft_box(d, at, shape, (struct zf_from){.src = src, .off = 8, .stride = stride}, &err),
        &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "test", "", &err);
    assert_ok(c, &err);
    assert_ok(zf_map_read(c->set[0].tensor[0].data, got, sizeof got, 0, &err), &err);
    for (uint64_t i = 0; i < sizeof got; i++) {
        uint64_t e = i / 4, from = e / 18 * stride[0] + e / 6 % 3 * stride[1] +
                                   e / 3 % 2 * stride[2] + e % 3 * stride[3];

        assert_int_equal(got[i], byte_at(8 + from * 4 + i % 4));
    }
}

struct range {
    uint64_t off, len;
    int times;
};

static bool note_range(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    struct range *r = ctx;

    (void)s;
    *r = (struct range){off, len, r->times + 1};
    return true;
}

static void a_cast_reads_only_its_elements(void **state)
{
    const struct matrix m = {{1024, 1024}, {1024, 1024}, {0, 0}};
    zf_auto(source) struct zf_source *src = counting(1024 * 1024 * 4);
    zf_auto(checkpoint) struct zf_checkpoint *c = chunked(&m, src);
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1u << 20, &err);
    struct zf_map *cast = zf_map_of_cast(a, c->set[0].tensor[0].data, ZF_DT_F32, ZF_DT_BF16, &err);
    unsigned char all[4096], part[4096];

    (void)state;
    assert_int_equal(zf_map_size(cast), 1024 * 1024 * 2);
    assert_int_equal(zf_map_at(cast, 5).kind, ZF_RUN_MADE);
    assert_ok(zf_map_read(cast, all, sizeof all, 100000, &err), &err);
    for (size_t off = 0; off < 40; off++) {
        for (size_t n = 1; n < 40; n++) {
            n_bytes = 0;
            assert_ok(zf_map_read(cast, part, n, 100000 + off, &err), &err);
            assert_memory_equal(part, all + off, n);
            assert_true(n_bytes <= 2 * n + 8);
            /* And these are told beforehand. */
            const uint64_t first = (100000 + off) / 2, end = (100000 + off + n - 1) / 2 + 1;
            struct range told = {0};
            assert_true(zf_map_each_range(cast, 100000 + off, n, note_range, &told));
            assert_int_equal(told.times, 1);
            assert_int_equal(told.off, zf_map_at(c->set[0].tensor[0].data, first * 4).off);
            assert_int_equal(told.len, (end - first) * 4);
        }
    }
}

/* However much is cast at once, each chunk is read once. */
static void a_cast_reads_each_chunk_once(void **state)
{
    const struct matrix m = {{2048, 1024}, {2048, 16}, {0, 0}};
    zf_auto(source) struct zf_source *src = counting(2048 * 1024 * 4);
    zf_auto(checkpoint) struct zf_checkpoint *c = chunked(&m, src);
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1u << 20, &err);
    const struct zf_map *whole = c->set[0].tensor[0].data;
    struct zf_map *cast = zf_map_of_cast(a, whole, ZF_DT_F32, ZF_DT_BF16, &err);
    unsigned char *got = malloc(1u << 20), *in = malloc(2u << 20), *want = malloc(1u << 20);

    (void)state;
    assert_ok(zf_map_read(whole, in, 2u << 20, 4 << 20, &err), &err);
    zf_cast(want, ZF_DT_BF16, in, ZF_DT_F32, 512 << 10);
    n_calls = 0;
    assert_ok(zf_map_read(cast, got, 512 << 10, 2 << 20, &err), &err);
    assert_int_equal(n_calls, 64);
    assert_memory_equal(got, want, 512 << 10);
    n_calls = 0;
    assert_ok(zf_map_read(cast, got, 1 << 20, 2 << 20, &err), &err);
    assert_int_equal(n_calls, 128);
    assert_memory_equal(got, want, 1 << 20);
    free(got);
    free(in);
    free(want);
}

static void parts_follow_each_other(void **state)
{
    zf_auto(source) struct zf_source *src = counting(100);
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1u << 20, &err);
    const struct zf_map *const part[] = {
        zf_map_of_mem(a, "head", 4, &err), map_of_zeros(a, 3, &err), zf_map_of_mem(a, "", 0, &err),
        zf_map_of_source(a, src, 10, 5, &err), map_of_zeros(a, 0, &err)};
    struct zf_map *m = zf_map_of_parts(a, part, 5, &err);
    unsigned char want[12] = "head", got[12];

    (void)state;
    assert_int_equal(zf_map_size(m), 12);
    for (unsigned i = 7; i < 12; i++)
        want[i] = byte_at(10 + i - 7);
    for (unsigned off = 0; off < 12; off++) {
        for (unsigned n = 0; n <= 12 - off; n++) {
            assert_ok(zf_map_read(m, got, n, off, &err), &err);
            assert_memory_equal(got, want + off, n);
        }
    }
    assert_int_equal(zf_map_at(m, 5).kind, ZF_RUN_ZERO);
    assert_int_equal(zf_map_at(m, 5).len, 2);
    assert_int_equal(zf_map_at(m, 8).off, 11);
    m = zf_map_of_parts(a, NULL, 0, &err);
    assert_int_equal(zf_map_size(m), 0);
}

/* A million chunks: at most 24 bytes each, wherever the cuts are. */
static void a_box_takes_24_bytes(void **state)
{
    static const struct matrix grids[] = {
        {{1000000, 4}, {1, 4}, {0, 0}},
        {{1000, 1000}, {1, 1}, {0, 0}},
        {{8, 500000}, {4, 1}, {0, 0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        const struct matrix *m = &grids[i];
        uint64_t n = m->shape[0] / m->box[0] * (m->shape[1] / m->box[1]);
        /* Far apart in the source, or they would be joined. */
        zf_auto(source) struct zf_source *src = counting(UINT64_C(1) << 40);
        struct zf_limits lim = zf_limits_default();
        struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
        struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                             (struct zf_type){ZF_DT_F32, 2, m->shape}, &err);
        uint64_t off = 0;
        for (uint64_t r = 0; r < m->shape[0]; r += m->box[0]) {
            for (uint64_t k = 0; k < m->shape[1]; k += m->box[1], off += 4096) {
                assert_ok(zf_draft_box(d, (uint64_t[]){r, k}, m->box,
                                       (struct zf_from){.src = src, .off = off}, &err),
                          &err);
            }
        }
        zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "test", "", &err);
        assert_ok(c, &err);
        assert_true(zf_arena_used(c->arena) <= 24 * n + 2048);
    }
}

struct reader {
    const struct matrix *m;
    const struct zf_map *map;
    uint64_t seed;
    bool ok;
};

static void *reader(void *arg)
{
    struct reader *r = arg;
    unsigned char got[3000];
    struct zf_err e;

    r->ok = true;
    for (int i = 0; i < 200; i++) {
        r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t off = (r->seed >> 20) % (zf_map_size(r->map) - sizeof got);

        r->ok = r->ok && zf_map_read(r->map, got, sizeof got, off, &e);
        for (size_t k = 0; k < sizeof got; k += 7)
            r->ok = r->ok && got[k] == want_at(r->m, off + k);
    }
    return NULL;
}

static void sixteen_threads_read_one_map(void **state)
{
    const struct matrix m = {{512, 512}, {128, 64}, {70, 1}};
    zf_auto(source) struct zf_source *src = counting(1u << 24);
    zf_auto(checkpoint) struct zf_checkpoint *c = chunked(&m, src);
    struct reader r[16];
    pthread_t t[16];

    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        r[i] = (struct reader){&m, c->set[0].tensor[0].data, i, false};
        assert_int_equal(pthread_create(&t[i], NULL, reader, &r[i]), 0);
    }
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_true(r[i].ok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_read_a_chunk),
        cmocka_unit_test(short_rows_are_read_in_blocks),
        cmocka_unit_test(which_rows_are_scattered),
        cmocka_unit_test(short_rows_of_any_read),
        cmocka_unit_test(strides_are_gathered_in_blocks),
        cmocka_unit_test(strides_are_gathered_on_a_small_stack),
        cmocka_unit_test(far_strides_read_no_more_than_asked),
        cmocka_unit_test(far_axes_are_walked_in_order),
        cmocka_unit_test(a_cast_reads_only_its_elements),
        cmocka_unit_test(a_cast_reads_each_chunk_once),
        cmocka_unit_test(parts_follow_each_other),
        cmocka_unit_test(a_box_takes_24_bytes),
        cmocka_unit_test(sixteen_threads_read_one_map),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
