/* SPDX-License-Identifier: Apache-2.0 */
/* Maps in another order against a loop over every element: reads that begin and end anywhere, runs, ranges. */
#include "support/unit.h"

#include <stdlib.h>

#include <zf/model/map.h>

#include "model/map_strided.h"

#define ROUNDS 3000
#define MAX_BYTES (1u << 15)

static uint64_t seed = 380038;

static uint64_t rnd(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

static unsigned char data[MAX_BYTES], want[MAX_BYTES], got[MAX_BYTES];

/* A tensor of up to five dimensions in random order, and what a loop makes of it; its bytes. */
static uint64_t make_order(struct zf_strided *s)
{
    static const uint32_t elems[] = {1, 2, 4, 8, 16};
    uint64_t size[5], stride[5], at[5] = {0}, n = 1;

    *s = (struct zf_strided){.elem = elems[rnd(5)], .nd = (uint32_t)rnd(6), .first = rnd(3)};
    for (uint32_t d = s->nd; d-- > 0;) {
        size[d] = 1 + rnd(7);
        stride[d] = n;
        n *= size[d];
        if (n * 7 * s->elem > MAX_BYTES / 2) {
            n /= size[d];
            size[d] = 1;
        }
    }
    /* Some of it, in another order. */
    for (uint32_t d = 0; d < s->nd; d++) {
        const uint32_t k = (uint32_t)rnd(d + 1);

        s->size[d] = s->size[k];
        s->stride[d] = s->stride[k];
        s->size[k] = 1 + rnd(size[d]);
        s->stride[k] = stride[d];
    }
    uint64_t bytes = 0;
    for (bool more = true; more; bytes += s->elem) {
        uint64_t from = s->first;
        uint32_t d = s->nd;

        for (uint32_t k = 0; k < s->nd; k++)
            from += at[k] * s->stride[k];
        memcpy(want + bytes, data + from * s->elem, s->elem);
        while (d > 0 && ++at[d - 1] == s->size[d - 1])
            at[--d] = 0;
        more = d > 0;
    }
    return bytes;
}

static void check_reads(const struct zf_map *m, uint64_t bytes)
{
    struct zf_err err;

    assert_int_equal(zf_map_size(m), bytes);
    for (int i = 0; i < 8; i++) {
        const uint64_t at = i ? rnd(bytes) : 0, n = i ? 1 + rnd(bytes - at) : bytes;

        memset(got, 0xaa, sizeof got);
        assert_true(zf_map_read(m, got, (size_t)n, at, &err));
        assert_memory_equal(got, want + at, n);
        assert_int_equal(got[n], 0xaa);
    }
    for (uint64_t at = 0; at < bytes;) {
        const struct zf_run run = zf_map_at(m, at);

        assert_int_equal(run.kind, ZF_RUN_MEM);
        assert_in_range(run.len, 1, bytes - at);
        assert_memory_equal(run.mem, want + at, run.len);
        at += run.len;
    }
}

static void elements_in_any_order(void **state)
{
    struct zf_err err;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)rnd(256);
    for (int i = 0; i < ROUNDS; i++) {
        zf_auto(arena) struct zf_arena *a = zf_arena_new(1u << 20, &err);
        struct zf_strided s;
        const uint64_t bytes = make_order(&s);
        const struct zf_map *in = zf_map_of_mem(a, data, sizeof data, &err);
        const struct zf_map *m = zf_map_strided(a, in, &s, &err);

        assert_non_null(m);
        check_reads(m, bytes);
    }
}

static void what_lies_outside_is_refused(void **state)
{
    struct zf_err err;
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1u << 20, &err);
    const struct zf_map *in = zf_map_of_mem(a, data, 100, &err);
    const struct zf_strided outside[] = {
        {.elem = 1, .nd = 1, .first = 1, .size = {100}, .stride = {1}},
        {.elem = 4, .nd = 2, .size = {5, 6}, .stride = {5, 1}},
        {.elem = 8, .nd = 1, .size = {UINT64_MAX / 4}, .stride = {8}},
        {.elem = 1, .nd = 2, .size = {2, UINT64_MAX}, .stride = {UINT64_MAX, 1}},
        {.elem = 1, .nd = ZF_STRIDED_DIMS + 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        assert_null(zf_map_strided(a, in, &outside[i], &err));
        assert_int_equal(err.code, ZF_E_FORMAT);
    }
}

static void columns_beside_each_other(void **state)
{
    struct zf_err err;

    (void)state;
    for (int i = 0; i < 500; i++) {
        zf_auto(arena) struct zf_arena *a = zf_arena_new(1u << 20, &err);
        const uint64_t rows = 1 + rnd(9), n = 1 + rnd(5);
        const struct zf_map *part[5];
        uint64_t width[5], row = 0;

        for (uint64_t k = 0; k < n; k++) {
            width[k] = rnd(8);
            part[k] = zf_map_of_mem(a, data + 1000 * k, rows * width[k], &err);
            row += width[k];
        }
        unsigned char *to = want;
        for (uint64_t r = 0; r < rows; r++) {
            for (uint64_t k = 0; k < n; k++) {
                memcpy(to, data + 1000 * k + r * width[k], width[k]);
                to += width[k];
            }
        }
        const struct zf_map *m = zf_map_columns(a, rows, part, n, &err);
        assert_non_null(m);
        if (row)
            check_reads(m, rows * row);
    }
}

static bool note_kept(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    struct zf_run *told = ctx;

    assert_null(told->src);
    *told = (struct zf_run){.src = s, .off = off, .len = len};
    return true;
}

/* A transposed matrix of one source is read in blocks, and it is their source that is prefetched; one of several sources
 * is not, because the blocks borrow its map. */
static void blocks_are_prefetched(void **state)
{
    enum { ROWS = 1024, BYTES = ROWS * ROWS * 2 };
    const struct zf_limits lim = zf_limits_default();
    const struct zf_strided turned = {
        .elem = 2, .nd = 2, .size = {ROWS, ROWS}, .stride = {1, ROWS}};
    struct zf_err err;

    (void)state;
    for (uint64_t parts = 1; parts <= 2; parts++) {
        struct zf_run told = {.src = NULL};
        struct sources sources = {.n = 0};
        const struct zf_map *part[2];
        zf_auto(arena) struct zf_arena *a = zf_arena_new(1u << 20, &err);
        zf_auto(source) struct zf_source *src =
            zf_mem_new("shard", calloc(1, BYTES), BYTES, true, &err);

        for (uint64_t i = 0; i < parts; i++)
            part[i] =
                zf_map_of_source(a, src, (parts - 1 - i) * (BYTES / parts), BYTES / parts, &err);
        const struct zf_map *in = parts == 1 ? part[0] : zf_map_of_parts(a, part, parts, &err);
        struct zf_map *m = zf_map_strided(a, in, &turned, &err);
        assert_true(sources_init(&sources, &err));
        assert_non_null(m);
        assert_true(map_strided_keep(m, &sources, &lim, &err));
        assert_int_equal(sources.n, SOURCES_FILES + 1);
        assert_true(zf_map_each_range(m, 5, 100, note_kept, &told));
        assert_ptr_equal(told.src, parts == 1 ? sources.at[SOURCES_FILES] : NULL);
        assert_int_equal(told.off, parts == 1 ? 5 : 0);
        assert_int_equal(told.len, parts == 1 ? 100 : 0);
        sources_fini(&sources);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_in_any_order),
        cmocka_unit_test(what_lies_outside_is_refused),
        cmocka_unit_test(columns_beside_each_other),
        cmocka_unit_test(blocks_are_prefetched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
