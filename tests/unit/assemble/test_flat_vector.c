/* SPDX-License-Identifier: Apache-2.0 */
/* Random groups of parameters on random numbers of ranks, laid out element by element, against the
 * pieces that zf_flat_piece gives. */
#include "support/unit.h"

#include <stdlib.h>

#include <zf/assemble/flat_vector.h>

#define MAX_PARAMS 6
#define MAX_RANKS 7

struct place {
    uint32_t rank;
    uint64_t at;
};

struct group {
    struct zf_flat_vector v;
    uint64_t len[MAX_PARAMS], pad[MAX_PARAMS];
    struct zf_flat_part part[MAX_RANKS];
    struct place *place[MAX_PARAMS]; /* of each element */
    struct zf_arena *a;
};

static void group_init(struct group *g)
{
    struct zf_err err = {0};

    *g = (struct group){.a = zf_arena_new(1 << 20, &err)};
    g->v.len = g->len;
    g->v.group = 3;
    g->v.n_params = 1 + (uint32_t)rand() % MAX_PARAMS;
    g->v.n_ranks = 1 + (uint32_t)rand() % MAX_RANKS;
    for (uint32_t i = 0; i < g->v.n_params; i++) {
        g->len[i] = (uint64_t)(rand() % 4 ? rand() % 40 : rand() % 2);
        g->pad[i] = (uint64_t)(rand() % 3);
        g->place[i] = calloc(g->len[i] + 1, sizeof(struct place));
    }
}

static void group_fini(struct group *g)
{
    for (uint32_t i = 0; i < g->v.n_params; i++)
        free(g->place[i]);
    zf_arena_free(g->a);
}

/* Pieces tile every parameter, are where its elements are, and end where they must. */
static void check(const struct group *g)
{
    for (uint32_t i = 0; i < g->v.n_params; i++) {
        uint64_t x = 0;

        while (x < g->len[i]) {
            struct zf_flat_piece p = zf_flat_piece(&g->v, i, x);

            assert_int_equal(p.first, x);
            assert_true(p.n > 0 && p.n <= g->len[i] - x);
            for (uint64_t k = 0; k < p.n; k++) {
                assert_int_equal(p.rank, g->place[i][x + k].rank);
                assert_int_equal(p.at + k, g->place[i][x + k].at);
            }
            x += p.n;
            assert_true(x == g->len[i] || g->place[i][x].rank != p.rank);
        }
    }
}

/* Deals elements to full partitions, then trims the padding of the last ones as far as `trim`. */
static void partitions(void **state)
{
    struct zf_err err = {0};

    (void)state;
    srand(5);
    for (int round = 0; round < 20000; round++) {
        uint64_t need = 0, size, y = 0;
        uint32_t align = 1 + (uint32_t)rand() % 3;
        bool trim = rand() % 2, pads = rand() % 2;
        struct group g;

        group_init(&g);
        for (uint32_t i = 0; i < g.v.n_params; i++)
            need += g.len[i] + (pads ? g.pad[i] : 0);
        for (size = 0; size * g.v.n_ranks < need; size += align) {
        }
        for (uint32_t i = 0; i < g.v.n_params; i++) {
            for (uint64_t x = 0; x < g.len[i]; x++, y++)
                g.place[i][x] = (struct place){(uint32_t)(y / size), y % size};
            y += pads ? g.pad[i] : 0;
        }
        for (uint32_t r = 0; r < g.v.n_ranks; r++) {
            uint64_t left = need > r * size ? need - r * size : 0;

            g.part[r] = (struct zf_flat_part){.file = "f", .n = size};
            g.part[r].n = trim && left < size ? left : size;
        }
        if (g.v.n_ranks > 1 && !trim && rand() % 2) /* the others show its length */
            g.part[rand() % (int)g.v.n_ranks].lost = true;
        assert_ok(zf_flat_partitions(&g.v, g.part, pads ? g.pad : NULL, align, g.a, &err), &err);
        check(&g);
        group_fini(&g);
    }
}

static void slots(void **state)
{
    struct zf_err err = {0};

    (void)state;
    for (int round = 0; round < 20000; round++) {
        uint64_t base = 0;
        struct group g;

        group_init(&g);
        assert_ok(zf_flat_slots(&g.v, g.a, &err), &err);
        for (uint32_t i = 0; i < g.v.n_params; i++) {
            uint64_t slot = (g.len[i] + g.v.n_ranks - 1) / g.v.n_ranks;
            struct zf_flat_piece p;

            for (uint64_t x = 0; x < g.len[i]; x++)
                g.place[i][x] = (struct place){(uint32_t)(x / slot), base + x % slot};
            for (uint32_t r = 0; r < g.v.n_ranks; r++) {
                bool some = zf_flat_slot(&g.v, i, r, &p);

                assert_int_equal(some, r * slot < g.len[i]);
                assert_true(!some || (p.rank == r && p.first == r * slot));
            }
            base += slot;
        }
        assert_int_equal(g.v.at[g.v.n_params], base);
        check(&g);
        group_fini(&g);
    }
}

static void refuse(struct group *g, const char *part)
{
    struct zf_err err = {0};

    assert_false(zf_flat_partitions(&g->v, g->part, NULL, 2, g->a, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, part);
}

/* Lengths that do not add up. */
static void refusals(void **state)
{
    struct zf_err err = {0};
    struct group g = {.v = {.group = 3, .n_params = 2, .n_ranks = 3}, .len = {10, 7}};
    static const uint64_t good[] = {6, 6, 5};

    (void)state;
    g.v.len = g.len;
    g.a = zf_arena_new(1 << 20, &err);
    for (uint32_t r = 0; r < 3; r++)
        g.part[r] = (struct zf_flat_part){.file = "f", .n = good[r]};
    assert_ok(zf_flat_partitions(&g.v, g.part, NULL, 2, g.a, &err), &err);
    g.part[0].n = g.part[1].n = 5;
    refuse(&g, "group 3 have 17 elements, but its 3 partitions hold 15");
    g.part[0].n = g.part[1].n = 6;
    g.part[2].n = 11;
    refuse(&g, "hold 23 (expected at most 5 elements of padding)");
    g.part[2].n = 5;
    g.part[1].n = 5;
    refuse(&g, "the partition of group 3 has 5 elements, expected 6 as on other ranks");
    g.part[1].n = UINT64_MAX;
    refuse(&g, "the partitions of group 3 have more than 2^64 elements");
    g.len[0] = UINT64_MAX;
    refuse(&g, "the parameters of group 3 have more than 2^64 elements");
    assert_false(zf_flat_slots(
        &(struct zf_flat_vector){.n_params = 2, .n_ranks = 1, .len = (uint64_t[]){UINT64_MAX, 1}},
        g.a, &err));
    zf_arena_free(g.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partitions),
        cmocka_unit_test(slots),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
