/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <stdlib.h>
#include <sys/resource.h>

#include <zstd.h>

#include <zf/source/source.h>

#define SIZE (3u * 1024 * 1024 + 77)

struct pack {
    uint8_t *plain, *z;
    uint64_t n, n_z;
};

/* Frames of `step` bytes; streamed: they do not say their size. */
static struct pack pack_of(uint64_t n, uint64_t step, bool streamed)
{
    struct pack p = {.plain = malloc(n + 1), .n = n};
    size_t room = ZSTD_compressBound(n) + 4096;
    ZSTD_CCtx *c = ZSTD_createCCtx();

    for (uint64_t i = 0; i < n; i++)
        p.plain[i] = (uint8_t)((i * 2654435761u >> 21) ^ (i >> 4));
    p.z = malloc(room);
    (void)ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, !streamed);
    (void)ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    for (uint64_t at = 0; at < n; at += step) {
        uint64_t len = n - at < step ? n - at : step;
        size_t got = ZSTD_compress2(c, p.z + p.n_z, room - p.n_z, p.plain + at, len);

        assert_false(ZSTD_isError(got));
        p.n_z += got;
    }
    (void)ZSTD_freeCCtx(c);
    return p;
}

/* One frame (sized), or many streamed ones. */
static struct pack pack_new(uint64_t n, bool streamed)
{
    return pack_of(n, streamed ? n / 3 + 1 : n, streamed);
}

static void pack_free(struct pack *p)
{
    free(p->plain);
    free(p->z);
}

static struct zf_source *source_of(const struct pack *p, uint64_t n, uint64_t size,
                                   struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(source) struct zf_source *mem = zf_mem_new("z", p->z, n, false, err);

    lim.cache_bytes = 1u << 20;
    return zf_zstd_new(mem, size, &lim, err);
}

static bool sized(const struct pack *p, uint64_t n, uint64_t max, uint64_t *size,
                  struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(source) struct zf_source *mem = zf_mem_new("z", p->z, n, false, err);

    return zf_zstd_size(mem, max, &lim, size, err);
}

/* Packed bytes that count what is read of them. */
struct counted {
    struct zf_source src;
    const struct pack *of;
    uint64_t bytes;
};

static bool counted_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                          struct zf_err *err)
{
    struct counted *c = (struct counted *)s;

    (void)err;
    memcpy(buf, c->of->z + off, n);
    c->bytes += n;
    return true;
}

static const struct zf_source_ops counted_ops = {
    .kind = "counted", .pread = counted_pread, .fini = zf_source_fini};

static struct zf_source *counted_new(struct counted *c, const struct pack *p)
{
    struct zf_err err;

    assert_ok(zf_source_init(&c->src, &counted_ops, "z", p->n_z, &err), &err);
    c->of = p;
    return &c->src;
}

static void reads_anywhere(void **state)
{
    struct zf_err err;
    static const uint64_t at[] = {0, 5, SIZE - 100, 1u << 20, (1u << 20) - 50, 17, 2u << 20};
    uint8_t buf[100];

    (void)state;
    for (int streamed = 0; streamed < 2; streamed++) {
        struct pack p = pack_new(SIZE, streamed);
        zf_auto(source) struct zf_source *s = source_of(&p, p.n_z, SIZE, &err);
        uint64_t size = 0;

        assert_ok(s && sized(&p, p.n_z, SIZE, &size, &err), &err);
        assert_int_equal(size, SIZE);
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            assert_ok(zf_source_pread(s, buf, sizeof buf, at[i], &err), &err);
            assert_memory_equal(buf, p.plain + at[i], sizeof buf);
        }
        pack_free(&p);
    }
}

/* Read backwards, with a cache of two blocks, an item of many frames is entered at each of them; one in a single frame from
 * its start, as often as the cache makes it necessary. */
static void going_back_enters_at_the_frames(void **state)
{
    enum { MIB = 24 };
    const uint64_t n = (uint64_t)MIB << 20;
    struct zf_err err;
    zf_auto(mem) uint8_t *buf = malloc(1u << 20);

    (void)state;
    for (int frames = 1; frames <= 12; frames += 11) {
        struct zf_limits lim = zf_limits_default();
        struct pack p = pack_of(n, n / (uint64_t)frames + 1, false);
        struct counted c = {.src = {.ops = NULL}};
        zf_auto(source) struct zf_source *packed = counted_new(&c, &p);

        lim.cache_bytes = 2u << 20;
        zf_auto(source) struct zf_source *s = zf_zstd_new(packed, n, &lim, &err);
        assert_ok(s, &err);
        for (int back = 0; back < 2; back++) {
            uint64_t before = c.bytes;

            for (uint64_t i = 0; i < MIB; i++) {
                uint64_t at = (back ? MIB - 1 - i : i) << 20;

                assert_ok(zf_source_pread(s, buf, 1u << 20, at, &err), &err);
                assert_memory_equal(buf, p.plain + at, 1u << 20);
            }
            uint64_t times = (c.bytes - before) / p.n_z;
            assert_true(back == 0 ? times <= 1 : frames > 1 ? times <= 2 : times > 2);
        }
        pack_free(&p);
    }
}

static void a_cut_or_damaged_frame_never_lies(void **state)
{
    struct zf_err err;
    struct pack p = pack_new(700, true);
    uint8_t buf[700];
    uint64_t size;

    (void)state;
    for (uint64_t n = 0; n < p.n_z; n++) {
        zf_auto(source) struct zf_source *s = source_of(&p, n, 700, &err);

        assert_false(s && zf_source_pread(s, buf, 700, 0, &err));
        assert_int_equal(err.code, ZF_E_FORMAT);
        /* A cut between two frames is not seen by who does not know the size. */
        assert_false(sized(&p, n, 1000, &size, &err) && size == 700);
    }
    for (uint64_t i = 0; i < p.n_z; i++) {
        p.z[i] ^= (uint8_t)(1u << (i % 8));
        zf_auto(source) struct zf_source *s = source_of(&p, p.n_z, 700, &err);
        bool read = s && zf_source_pread(s, buf, 700, 0, &err);
        if (read)
            assert_memory_equal(buf, p.plain, 700);
        /* The pass that finds the size checks what a read checks. */
        assert_int_equal(sized(&p, p.n_z, 1000, &size, &err) && size == 700, read);
        p.z[i] ^= (uint8_t)(1u << (i % 8));
    }
    pack_free(&p);
}

static void a_wrong_size_is_refused(void **state)
{
    struct zf_err err;
    uint8_t b;

    (void)state;
    for (int streamed = 0; streamed < 2; streamed++) {
        struct pack p = pack_new(SIZE, streamed);
        zf_auto(source) struct zf_source *small = source_of(&p, p.n_z, SIZE - 1, &err);
        if (streamed) {
            assert_ok(small, &err);
            assert_false(zf_source_pread(small, &b, 1, SIZE - 2, &err));
        }
        assert_int_equal(err.code, ZF_E_FORMAT);

        zf_auto(source) struct zf_source *large = source_of(&p, p.n_z, SIZE + 1, &err);
        assert_ok(large, &err);
        assert_false(zf_source_pread(large, &b, 1, SIZE, &err));
        assert_int_equal(err.code, ZF_E_FORMAT);
        assert_non_null(strstr(err.msg, "fewer bytes"));
        pack_free(&p);
    }
}

static void a_bomb_is_refused(void **state)
{
    struct zf_err err;

    (void)state;
    for (int streamed = 0; streamed < 2; streamed++) {
        struct pack p = pack_new(200000, streamed);
        uint64_t size = 0;

        assert_ok(sized(&p, p.n_z, 200000, &size, &err), &err);
        assert_int_equal(size, 200000);
        assert_false(sized(&p, p.n_z, 199999, &size, &err));
        assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "more than the 199999 bytes");
        assert_false(sized(&p, p.n_z, 0, &size, &err));
        assert_int_equal(err.code, ZF_E_LIMIT);
        pack_free(&p);
    }
}

/* n zero bytes in some kilobytes, in one frame that does not say its size. */
static struct pack bomb_new(uint64_t n)
{
    static const uint8_t zeros[1u << 20];
    struct pack p = {.z = malloc(1u << 20), .n = n};
    ZSTD_outBuffer out = {.dst = p.z, .size = 1u << 20};
    ZSTD_CCtx *c = ZSTD_createCCtx();

    for (uint64_t at = 0; at < n; at += sizeof zeros) {
        ZSTD_inBuffer in = {.src = zeros, .size = sizeof zeros};
        bool last = at + sizeof zeros >= n;
        size_t rc = ZSTD_compressStream2(c, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);

        assert_false(ZSTD_isError(rc));
        assert_int_equal(in.pos, in.size);
        assert_true(!last || rc == 0);
    }
    (void)ZSTD_freeCCtx(c);
    p.n_z = out.pos;
    return p;
}

static long peak_kib(void)
{
    struct rusage use;

    assert_int_equal(getrusage(RUSAGE_SELF, &use), 0);
    return use.ru_maxrss;
}

static void the_size_of_a_bomb_costs_no_memory(void **state)
{
    struct zf_err err;
    struct pack p = bomb_new(256u << 20);
    long before = peak_kib();
    uint64_t size = 0;

    (void)state;
    assert_in_range(p.n_z, 1, 64u << 10);
    assert_ok(sized(&p, p.n_z, UINT64_MAX, &size, &err), &err);
    assert_int_equal(size, 256u << 20);
    assert_in_range(peak_kib() - before, 0, 32u << 10);
    assert_false(sized(&p, p.n_z, (256u << 20) - 1, &size, &err));
    assert_int_equal(err.code, ZF_E_LIMIT);
    pack_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_anywhere),
        cmocka_unit_test(going_back_enters_at_the_frames),
        cmocka_unit_test(a_cut_or_damaged_frame_never_lies),
        cmocka_unit_test(a_wrong_size_is_refused),
        cmocka_unit_test(a_bomb_is_refused),
        cmocka_unit_test(the_size_of_a_bomb_costs_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
