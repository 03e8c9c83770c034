/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <stdlib.h>

#include <zstd.h>

#include <zf/source/source.h>

#define SIZE (3u * 1024 * 1024 + 77)

struct pack {
    uint8_t *plain, *z;
    uint64_t n, n_z;
};

/* One frame (sized), or many streamed ones that do not say their size. */
static struct pack pack_new(uint64_t n, bool streamed)
{
    struct pack p = {.plain = malloc(n + 1), .n = n};
    uint64_t step = streamed ? n / 3 + 1 : n;
    size_t room = ZSTD_compressBound(n) + 4096;
    ZSTD_CCtx *c = ZSTD_createCCtx();

    for (uint64_t i = 0; i < n; i++) {
        p.plain[i] = (uint8_t)((i * 2654435761u >> 21) ^ (i >> 4));
    }
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

static struct zf_source *loaded(const struct pack *p, uint64_t n, uint64_t max, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(source) struct zf_source *mem = zf_mem_new("z", p->z, n, false, err);

    return zf_zstd_load(mem, max, &lim, err);
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
        zf_auto(source) struct zf_source *all = loaded(&p, p.n_z, SIZE, &err);

        assert_ok(s && all, &err);
        assert_int_equal(all->size, SIZE);
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            assert_ok(zf_source_pread(s, buf, sizeof buf, at[i], &err), &err);
            assert_memory_equal(buf, p.plain + at[i], sizeof buf);
            assert_ok(zf_source_pread(all, buf, sizeof buf, at[i], &err), &err);
            assert_memory_equal(buf, p.plain + at[i], sizeof buf);
        }
        pack_free(&p);
    }
}

static void a_cut_or_damaged_frame_never_lies(void **state)
{
    struct zf_err err;
    struct pack p = pack_new(700, true);
    uint8_t buf[700];

    (void)state;
    for (uint64_t n = 0; n < p.n_z; n++) {
        zf_auto(source) struct zf_source *s = source_of(&p, n, 700, &err);

        assert_false(s && zf_source_pread(s, buf, 700, 0, &err));
        assert_int_equal(err.code, ZF_E_FORMAT);
    }
    for (uint64_t i = 0; i < p.n_z; i++) {
        p.z[i] ^= (uint8_t)(1u << (i % 8));
        zf_auto(source) struct zf_source *s = source_of(&p, p.n_z, 700, &err);
        if (s && zf_source_pread(s, buf, 700, 0, &err)) {
            assert_memory_equal(buf, p.plain, 700);
        }
        zf_auto(source) struct zf_source *all = loaded(&p, p.n_z, 1000, &err);
        if (all && all->size == 700) {
            assert_true(zf_source_pread(all, buf, 700, 0, &err));
            assert_memory_equal(buf, p.plain, 700);
        }
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
        zf_auto(source) struct zf_source *fits = loaded(&p, p.n_z, 200000, &err);

        assert_ok(fits, &err);
        assert_null(loaded(&p, p.n_z, 199999, &err));
        assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "more than the 199999 bytes");
        assert_null(loaded(&p, p.n_z, 0, &err));
        assert_int_equal(err.code, ZF_E_LIMIT);
        pack_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_anywhere),
        cmocka_unit_test(a_cut_or_damaged_frame_never_lies),
        cmocka_unit_test(a_wrong_size_is_refused),
        cmocka_unit_test(a_bomb_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
