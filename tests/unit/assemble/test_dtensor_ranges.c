/* SPDX-License-Identifier: Apache-2.0 */
/* What each rank of a mesh holds: against cuts done by hand, and the ranks' parts must tile the
 * tensor. */
#include <stdlib.h>

#include "support/unit.h"

#include "src/assemble/join_box.h"

enum { MAX_LEN = 64 };

struct cutting {
    struct zf_mesh_axis axis[3];
    uint32_t n;
    uint64_t len;
};

/* How often each element of a 1-D tensor is owned, by all ranks of the mesh together. */
static void count(const struct cutting *c, uint8_t owned[MAX_LEN])
{
    struct zf_err err = {0};
    uint64_t ranks = 1, stride = 1;

    for (uint32_t i = 0; i < c->n; i++)
        ranks *= c->axis[i].size;
    memset(owned, 0, MAX_LEN);
    for (uint64_t r = 0; r < ranks; r++) {
        zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
        struct zf_mesh_axis axis[3];
        uint64_t rest = r;
        struct dim_ranges dim;

        for (uint32_t i = c->n; i-- > 0;) {
            axis[i] = c->axis[i];
            axis[i].coord = rest % axis[i].size;
            rest /= axis[i].size;
        }
        struct zf_dtensor dt = {.ndim = 1,
                                .shape = &c->len,
                                .stride = &stride,
                                .n_axes = c->n,
                                .axis = axis,
                                .has_coord = true};
        assert_non_null(a);
        assert_ok(ranges_dims(&dt, a, &dim, &err), &err);
        uint64_t total = 0;
        for (uint64_t i = 0; i < dim.n; i++) {
            assert_true(dim.range[i].lo <= dim.range[i].hi && dim.range[i].hi <= c->len);
            for (uint64_t k = dim.range[i].lo; k < dim.range[i].hi; k++)
                owned[k]++;
            total += dim.range[i].hi - dim.range[i].lo;
        }
        assert_int_equal(total, dim.total);
    }
}

static void check_tiles(const struct cutting *c, uint8_t times)
{
    uint8_t owned[MAX_LEN];

    count(c, owned);
    for (uint64_t k = 0; k < c->len; k++)
        assert_int_equal(owned[k], times);
}

#define SHARD(n)                                                                                   \
    {                                                                                              \
        .size = (n), .place = ZF_PLACEMENT_SHARD                                                   \
    }
#define STRIDED(n, f)                                                                              \
    {                                                                                              \
        .size = (n), .place = ZF_PLACEMENT_STRIDED, .split_factor = (f)                            \
    }
#define REPLICATE(n)                                                                               \
    {                                                                                              \
        .size = (n), .place = ZF_PLACEMENT_REPLICATE                                               \
    }

static void every_mesh_tiles(void **state)
{
    (void)state;
    for (uint64_t len = 0; len < MAX_LEN; len++) {
        for (uint64_t a = 1; a <= 5; a++) {
            for (uint64_t b = 1; b <= 4; b++) {
                const struct cutting fsdp = {{SHARD(a)}, 1, len};
                const struct cutting twice = {{SHARD(a), SHARD(b)}, 2, len};
                const struct cutting hsdp = {{REPLICATE(b), SHARD(a)}, 2, len};
                const struct cutting fsdp_tp = {{STRIDED(a, b), SHARD(b)}, 2, len};
                const struct cutting hsdp_tp = {{REPLICATE(2), STRIDED(a, b), SHARD(b)}, 3, len};
                const struct cutting alone = {{STRIDED(a, b)}, 1, len};

                check_tiles(&fsdp, 1);
                check_tiles(&twice, 1);
                check_tiles(&hsdp, (uint8_t)b);
                check_tiles(&fsdp_tp, 1);
                check_tiles(&hsdp_tp, 2);
                check_tiles(&alone, 1);
            }
        }
    }
}

/* The parts of the rank at these coordinates, as pairs of bounds. */
static void expect(struct zf_mesh_axis *axis, uint32_t n, uint64_t len, const uint64_t *bounds,
                   uint64_t n_ranges)
{
    struct zf_err err = {0};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
    struct zf_dtensor dt = {.ndim = 1, .shape = &len, .n_axes = n, .axis = axis, .has_coord = true};
    struct dim_ranges dim;

    assert_non_null(a);
    assert_ok(ranges_dims(&dt, a, &dim, &err), &err);
    assert_int_equal(dim.n, n_ranges);
    for (uint64_t i = 0; i < n_ranges; i++) {
        assert_int_equal(dim.range[i].lo, bounds[2 * i]);
        assert_int_equal(dim.range[i].hi, bounds[2 * i + 1]);
    }
}

static void cuts_by_hand(void **state)
{
    (void)state;
    /* 5 over 4 ranks: 2 2 1 0, as torch.chunk cuts. */
    struct zf_mesh_axis fsdp[] = {SHARD(4)};
    const uint64_t want[4][2] = {{0, 2}, {2, 4}, {4, 5}, {5, 5}};
    for (uint64_t r = 0; r < 4; r++) {
        fsdp[0].coord = r;
        expect(fsdp, 1, 5, want[r], 1);
    }
    /* FSDP over tensor parallel: tensor parallel cuts 10 into 5 and 5, FSDP each into 3 and 2. */
    struct zf_mesh_axis both[] = {STRIDED(2, 2), SHARD(2)};
    both[0].coord = 1;
    both[1].coord = 1;
    expect(both, 2, 10, (const uint64_t[]){8, 10}, 1);
    /* A strided cut without the other axis: two groups of 4, of each the first half. */
    struct zf_mesh_axis alone[] = {STRIDED(2, 2)};
    expect(alone, 1, 8, (const uint64_t[]){0, 2, 4, 6}, 2);
}

/* So many groups that their ranges fill a block of the arena to its last byte: what is written behind them breaks the
 * heap, or a sanitizer's rules. */
static void many_groups(void **state)
{
    static const uint64_t groups[] = {1000, 4000, 65535, 65536};

    (void)state;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        struct zf_err err = {0};
        zf_auto(arena) struct zf_arena *a = zf_arena_new(8 << 20, &err);
        struct zf_mesh_axis axis[] = {STRIDED(2, groups[i])};
        uint64_t len = 4 * groups[i];
        struct zf_dtensor dt = {
            .ndim = 1, .shape = &len, .n_axes = 1, .axis = axis, .has_coord = true};
        struct dim_ranges dim;

        axis[0].coord = 1;
        assert_ok(ranges_dims(&dt, a, &dim, &err), &err);
        assert_int_equal(dim.n, groups[i]);
        assert_int_equal(dim.total, 2 * groups[i]);
        for (uint64_t g = 0; g < groups[i]; g++) {
            assert_int_equal(dim.range[g].lo, 4 * g + 2);
            assert_int_equal(dim.range[g].hi, 4 * g + 4);
        }
    }
}

static void refusals(void **state)
{
    (void)state;
    struct zf_err err = {0};
    uint64_t len = 8;
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
    struct dim_ranges dim;
    struct zf_mesh_axis partial[] = {{.size = 2, .place = ZF_PLACEMENT_PARTIAL}};
    struct zf_mesh_axis uneven[] = {SHARD(2), STRIDED(2, 3)};
    struct zf_mesh_axis huge[] = {STRIDED(2, UINT64_MAX)}, too_many[] = {STRIDED(2, 65537)};
    struct zf_dtensor dt = {
        .ndim = 1, .shape = &len, .n_axes = 1, .axis = partial, .has_coord = true};

    assert_non_null(a);
    assert_false(ranges_dims(&dt, a, &dim, &err));
    assert_err(&err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "summand");
    dt.axis = uneven;
    dt.n_axes = 2;
    assert_false(ranges_dims(&dt, a, &dim, &err));
    assert_err(&err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "split factor 3");
    dt.axis = huge;
    dt.n_axes = 1;
    assert_false(ranges_dims(&dt, a, &dim, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "pieces");
    dt.axis = too_many;
    assert_false(ranges_dims(&dt, a, &dim, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "pieces");
    /* within the bound, but for this arena too many */
    zf_auto(arena) struct zf_arena *small = zf_arena_new(4096, &err);
    struct zf_mesh_axis many[] = {STRIDED(2, 1000)};

    assert_non_null(small);
    dt.axis = many;
    assert_false(ranges_dims(&dt, small, &dim, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mesh_tiles),
        cmocka_unit_test(cuts_by_hand),
        cmocka_unit_test(many_groups),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
