/* SPDX-License-Identifier: Apache-2.0 */
/* zlib's own one-shot deflate is the other side of every comparison. */
#include "support/unit.h"
#include "support/fault.h"

#include <pthread.h>
#include <stdlib.h>

#include <zlib.h>

#include <zf/source/source.h>

#define SIZE (5u * 1024 * 1024 + 777)

struct pack {
    uint8_t *plain, *deflated;
    uint64_t n, n_deflated;
    uint32_t crc;
};

static uint64_t seed = 88172645463325252u;

static uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Floats-like data: stretches that compress well beside some that do not. */
static struct pack pack_new(uint64_t n, int level)
{
    struct pack p = {.plain = malloc(n + 1), .n = n};
    z_stream z = {0};

    for (uint64_t i = 0; i < n; i++)
        p.plain[i] = (i >> 16) % 3 ? (uint8_t)rnd() : (uint8_t)(i >> 9);
    p.crc = (uint32_t)crc32_z(0, p.plain, n);
    assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    uLong room = deflateBound(&z, n);
    p.deflated = malloc(room);
    z.next_in = p.plain;
    z.avail_in = (uInt)n;
    z.next_out = p.deflated;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    p.n_deflated = z.total_out;
    assert_int_equal(deflateEnd(&z), Z_OK);
    return p;
}

static void pack_free(struct pack *p)
{
    free(p->plain);
    free(p->deflated);
}

/* A source over the first n deflated bytes. */
static struct zf_source *inflater(const struct pack *p, uint64_t n, uint64_t size, uint32_t crc,
                                  uint64_t cache)
{
    struct zf_err err;
    struct zf_limits lim = zf_limits_default();
    zf_auto(source) struct zf_source *mem = zf_mem_new("z", p->deflated, n, false, &err);

    lim.cache_bytes = cache;
    struct zf_source *s = zf_inflate_new(mem, size, crc, &lim, &err);
    assert_ok(s, &err);
    return s;
}

static void assert_same(struct zf_source *s, const struct pack *p, uint64_t off, uint64_t n)
{
    struct zf_err err;
    zf_auto(mem) uint8_t *buf = malloc(n + 1);

    assert_ok(zf_source_pread(s, buf, n, off, &err), &err);
    assert_memory_equal(buf, p->plain + off, n);
}

static void reads_anywhere(void **state)
{
    static const uint64_t caches[] = {0, 2u << 20, 64u << 20};

    (void)state;
    for (int level = 0; level <= 9; level += 3) {
        struct pack p = pack_new(SIZE, level);

        for (size_t c = 0; c < 3; c++) {
            zf_auto(source) struct zf_source *s =
                inflater(&p, p.n_deflated, SIZE, p.crc, caches[c]);

            for (int i = 0; i < 12; i++) {
                uint64_t off = rnd() % SIZE, n = rnd() % 5000;

                assert_same(s, &p, off, off + n < SIZE ? n : SIZE - off);
            }
            assert_same(s, &p, 0, SIZE);
            assert_same(s, &p, SIZE - 1, 1);
            assert_same(s, &p, (1u << 20) - 5, 10);
        }
        pack_free(&p);
    }
}

struct reader {
    struct zf_source *s;
    const struct pack *p;
    uint64_t seed;
    bool ok;
};

static void *read_around(void *arg)
{
    struct reader *r = arg;
    struct zf_err err;
    uint8_t buf[9000];

    r->ok = true;
    for (int i = 0; i < 40 && r->ok; i++) {
        r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t off = (r->seed >> 20) % (SIZE - sizeof buf);

        r->ok = zf_source_pread(r->s, buf, sizeof buf, off, &err) &&
                memcmp(buf, r->p->plain + off, sizeof buf) == 0;
    }
    return NULL;
}

static void reads_from_many_threads(void **state)
{
    struct pack p = pack_new(SIZE, 6);
    zf_auto(source) struct zf_source *s = inflater(&p, p.n_deflated, SIZE, p.crc, 1u << 20);
    struct reader r[6];
    pthread_t t[6];

    (void)state;
    for (uint64_t i = 0; i < 6; i++) {
        r[i] = (struct reader){.s = s, .p = &p, .seed = i};
        assert_int_equal(pthread_create(&t[i], NULL, read_around, &r[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_true(r[i].ok);
    }
    pack_free(&p);
}

static void a_wrong_crc_is_met_at_the_end_and_stays(void **state)
{
    struct zf_err err;
    struct pack p = pack_new(SIZE, 1);
    zf_auto(source) struct zf_source *s = inflater(&p, p.n_deflated, SIZE, p.crc ^ 1, 64u << 20);
    uint8_t b;

    (void)state;
    assert_true(zf_source_pread(s, &b, 1, 0, &err));
    assert_false(zf_source_pread(s, &b, 1, SIZE - 1, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "CRC-32");
    assert_string_equal(err.path, "z");
    assert_false(zf_source_pread(s, &b, 1, 0, &err));
    assert_int_equal(err.code, ZF_E_FORMAT);
    pack_free(&p);
}

/* Small enough to cut at every byte. */
static void a_cut_stream_fails_wherever_it_is_cut(void **state)
{
    struct zf_err err;
    struct pack p = pack_new(900, 9);
    uint8_t buf[900];

    (void)state;
    for (uint64_t n = 0; n < p.n_deflated; n++) {
        zf_auto(source) struct zf_source *s = inflater(&p, n, 900, p.crc, 0);

        assert_false(zf_source_pread(s, buf, 1, 0, &err));
        assert_int_equal(err.code, ZF_E_FORMAT);
    }
    pack_free(&p);

    struct pack big = pack_new(SIZE, 6);
    for (int i = 0; i < 8; i++) {
        uint64_t n = rnd() % big.n_deflated;
        zf_auto(source) struct zf_source *s = inflater(&big, n, SIZE, big.crc, 0);

        assert_false(zf_source_pread(s, buf, 1, SIZE - 1, &err));
        assert_err(&err, ZF_E_FORMAT, n, "ends early");
    }
    pack_free(&big);
}

/* Whatever one byte is turned into, no wrong byte of a member that was read whole gets out. */
static void a_damaged_stream_never_lies(void **state)
{
    struct zf_err err;
    struct pack p = pack_new(900, 9);
    uint8_t buf[900];

    (void)state;
    for (uint64_t i = 0; i < p.n_deflated; i++) {
        p.deflated[i] ^= (uint8_t)(1u << (i % 8));
        zf_auto(source) struct zf_source *s = inflater(&p, p.n_deflated, 900, p.crc, 0);

        if (zf_source_pread(s, buf, 900, 0, &err))
            assert_memory_equal(buf, p.plain, 900);
        else
            assert_int_equal(err.code, ZF_E_FORMAT);
        p.deflated[i] ^= (uint8_t)(1u << (i % 8));
    }
    pack_free(&p);
}

static void a_wrong_size_is_refused(void **state)
{
    struct zf_err err;
    struct pack p = pack_new(3u << 20, 1);
    uint8_t b;
    static const int64_t by[] = {-1, 1, -(1 << 20), 1 << 20, 1 - (1 << 20)};

    (void)state;
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        uint64_t size = (uint64_t)((int64_t)p.n + by[i]);
        zf_auto(source) struct zf_source *s = inflater(&p, p.n_deflated, size, p.crc, 0);

        assert_false(zf_source_pread(s, &b, 1, size - 1, &err));
        assert_int_equal(err.code, ZF_E_FORMAT);
        assert_non_null(strstr(err.msg, by[i] < 0 ? "more bytes" : "fewer bytes"));
    }
    pack_free(&p);
}

static void a_bomb_is_refused_before_it_goes_off(void **state)
{
    struct zf_err err;
    struct zf_limits lim = zf_limits_default();
    struct pack p = pack_new(100000, 6);
    zf_auto(source) struct zf_source *mem = zf_mem_new("z", p.deflated, p.n_deflated, false, &err);

    (void)state;
    assert_null(zf_inflate_new(mem, 1ull << 62, 0, &lim, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "cannot inflate to");
    lim.inflate_bytes = 99999;
    assert_null(zf_inflate_new(mem, 100000, 0, &lim, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "inflate_bytes");
    pack_free(&p);
}

static void a_failing_read_may_be_tried_again(void **state)
{
    struct zf_err err;
    struct zf_limits lim = zf_limits_default();
    struct pack p = pack_new(3u << 20, 6);
    uint8_t b;

    (void)state;
    zf_auto(source) struct zf_source *mem = zf_mem_new("z", p.deflated, p.n_deflated, false, &err);
    zf_auto(source) struct zf_source *bad = fault_new(mem, p.n_deflated - 9, 1, &err);
    zf_auto(source) struct zf_source *s = zf_inflate_new(bad, p.n, p.crc, &lim, &err);
    for (int i = 0; i < 2; i++) {
        assert_false(zf_source_pread(s, &b, 1, p.n - 1, &err));
        assert_int_equal(err.code, ZF_E_IO);
        assert_true(zf_source_pread(s, &b, 1, 0, &err));
        assert_int_equal(b, p.plain[0]);
    }
    pack_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_anywhere),
        cmocka_unit_test(reads_from_many_threads),
        cmocka_unit_test(a_wrong_crc_is_met_at_the_end_and_stays),
        cmocka_unit_test(a_cut_stream_fails_wherever_it_is_cut),
        cmocka_unit_test(a_damaged_stream_never_lies),
        cmocka_unit_test(a_wrong_size_is_refused),
        cmocka_unit_test(a_bomb_is_refused_before_it_goes_off),
        cmocka_unit_test(a_failing_read_may_be_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
