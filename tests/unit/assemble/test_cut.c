/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are joined from the shards of several ranks: every element is compared with a plain array
 * that was cut by loops, and every wrong rule is refused. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/assemble/cut.h>

#include "support/random.h"

#define ROUNDS 1500
#define MOST 4096 /* elements of a tensor */
#define RANKS 5
#define SUBS 4

static struct zf_err err;
static const struct zf_spot whole_spot = {"", "w", 1};

struct fixture {
    struct zf_build *b;
    struct zf_arena *a;
    struct zf_cut_rule rule;
    uint32_t ndim, n_ranks, n_subs;
    uint64_t shape[4], width[SUBS * RANKS], shard_shape[RANKS][4];
    const uint64_t *shards[RANKS];
    uint16_t whole[MOST], shard[RANKS][MOST];
    struct zf_draft *draft[RANKS];
};

static void begin(struct fixture *f)
{
    struct zf_limits lim = zf_limits_default();

    memset(f, 0, sizeof *f);
    f->b = zf_build_new(NULL, &lim, false, &err);
    f->a = zf_arena_new(1 << 24, &err);
    assert_non_null(f->b);
    assert_non_null(f->a);
    for (uint32_t i = 0; i < MOST; i++)
        f->whole[i] = (uint16_t)random_below(65536);
}

static void end(struct fixture *f)
{
    zf_build_free(f->b);
    zf_arena_free(f->a);
}

static uint64_t elements(uint32_t nd, const uint64_t *shape)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < nd; d++)
        n *= shape[d];
    return n;
}

/* Chooses a rule and shapes that go with it. */
static void choose(struct fixture *f)
{
    f->ndim = 1 + (uint32_t)random_below(3);
    f->n_ranks = 1 + (uint32_t)random_below(RANKS);
    f->rule.kind = (enum zf_cut_kind)random_below(3);
    f->rule.dim = (uint32_t)random_below(f->ndim);
    f->n_subs = f->rule.kind == ZF_CUT_SUBS ? 1 + (uint32_t)random_below(SUBS) : 1;
    f->rule.n_subs = f->n_subs;
    bool equal = f->rule.kind == ZF_CUT_SUBS && random_below(2);
    for (uint32_t d = 0; d < f->ndim; d++)
        f->shape[d] = 1 + random_below(5);
    for (uint32_t r = 0; r < f->n_ranks; r++) {
        memcpy(f->shard_shape[r], f->shape, sizeof f->shape);
        f->shards[r] = f->shard_shape[r];
        if (f->rule.kind == ZF_CUT_COPIES)
            continue;
        f->shard_shape[r][f->rule.dim] = 0;
        uint64_t every = random_below(4);
        for (uint32_t s = 0; s < f->n_subs; s++) {
            uint64_t n = equal ? every : random_below(4);

            f->width[s * f->n_ranks + r] = n;
            f->shard_shape[r][f->rule.dim] += n;
        }
    }
    f->rule.width = f->rule.kind == ZF_CUT_SUBS && !equal ? f->width : NULL;
    if (f->rule.kind != ZF_CUT_COPIES) {
        f->shape[f->rule.dim] = 0;
        for (uint32_t i = 0; i < f->n_subs * f->n_ranks; i++)
            f->shape[f->rule.dim] += f->width[i];
    }
}

/* Which rank has index i of the cut dimension, and where. */
static uint64_t owner(const struct fixture *f, uint64_t i, uint32_t *rank)
{
    uint64_t in_shard[RANKS] = {0};

    for (uint32_t s = 0; s < f->n_subs; s++) {
        for (uint32_t r = 0; r < f->n_ranks; r++) {
            uint64_t n = f->width[s * f->n_ranks + r];

            if (i < n) {
                *rank = r;
                return in_shard[r] + i;
            }
            i -= n;
            in_shard[r] += n;
        }
    }
    fail();
    return 0;
}

/* Cuts the whole, element by element. */
static void cut(struct fixture *f)
{
    for (uint64_t e = 0; e < elements(f->ndim, f->shape); e++) {
        uint64_t at[4], rest = e;

        for (uint32_t d = f->ndim; d-- > 0;) {
            at[d] = rest % f->shape[d];
            rest /= f->shape[d];
        }
        for (uint32_t r = 0, to = 0; r < f->n_ranks; r++) {
            uint64_t x = 0, in = at[f->rule.dim];

            if (f->rule.kind != ZF_CUT_COPIES)
                in = owner(f, at[f->rule.dim], &to);
            for (uint32_t d = 0; d < f->ndim; d++)
                x = x * f->shard_shape[r][d] + (d == f->rule.dim ? in : at[d]);
            if (f->rule.kind == ZF_CUT_COPIES || to == r)
                f->shard[r][x] = f->whole[e];
        }
    }
}

/* A rank's shard, in pieces as they come: ranges, runs of two halves, or one box with strides. */
static void draft_shard(struct fixture *f, uint32_t r)
{
    const uint64_t *shape = f->shard_shape[r];
    uint64_t n = elements(f->ndim, shape);
    char set[20];
    uint16_t *p = calloc(2 * n + 1, sizeof *p);

    assert_non_null(p);
    (void)snprintf(set, sizeof set, "mp_rank_%02u", r);
    f->draft[r] = zf_build_tensor(f->b, (struct zf_spot){set, "w", 1},
                                  (struct zf_type){ZF_DT_F16, f->ndim, shape}, &err);
    assert_ok(f->draft[r], &err);
    bool strided = random_below(3) == 0;
    for (uint64_t i = 0; i < n; i++)
        p[strided ? 2 * i : i] = f->shard[r][i];
    zf_auto(source) struct zf_source *src = zf_mem_new("rank.pt", p, (2 * n + 1) * 2, true, &err);
    assert_ok(src, &err);
    if (strided) {
        uint64_t stride[4], step = 2;

        for (uint32_t d = f->ndim; d-- > 0; step *= shape[d])
            stride[d] = step;
        assert_ok(zf_draft_box(f->draft[r], NULL, shape,
                               (struct zf_from){.src = src, .off = 0, .stride = stride}, &err),
                  &err);
        return;
    }
    for (uint64_t x = 0, m; x < n; x += m) {
        m = 1 + random_below(n - x);
        assert_ok(
            zf_draft_flat(f->draft[r], x, m, (struct zf_from){.src = src, .off = 2 * x}, &err),
            &err);
    }
}

static void expect_whole(struct fixture *f, uint64_t n)
{
    uint16_t got[MOST];

    struct zf_checkpoint *c = zf_build_seal(f->b, "test", NULL, &err);
    f->b = NULL;
    assert_ok(c, &err);
    assert_int_equal(c->n_sets, 1);
    assert_int_equal(c->set[0].n, 1);
    assert_int_equal(zf_map_size(c->set[0].tensor[0].data), 2 * n);
    assert_ok(n == 0 || zf_map_read(c->set[0].tensor[0].data, got, 2 * n, 0, &err), &err);
    assert_memory_equal(got, f->whole, 2 * n);
    zf_checkpoint_free(c);
}

static void joins_what_was_cut(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct fixture f;
        struct zf_cut c;
        struct zf_copy_check check = {0};

        begin(&f);
        choose(&f);
        cut(&f);
        uint64_t rows = f.shape[0], row = elements(f.ndim - 1, f.shape + 1);
        if (rows > 0 && random_below(3) == 0)
            f.rule.rows = rows = 1 + random_below(rows);
        for (uint32_t r = 0; r < f.n_ranks; r++)
            draft_shard(&f, r);
        assert_ok(zf_cut_lay(&f.rule, f.ndim, f.shards, f.n_ranks, f.a, &c, &err), &err);
        assert_ok(zf_cut_prove(&c, &err), &err);
        assert_ok(zf_cut_draft(&c, f.b, whole_spot, f.draft, &check, &err), &err);
        zf_copy_check_fini(&check);
        for (uint32_t r = 0; r < f.n_ranks; r++) {
            char set[20];

            (void)snprintf(set, sizeof set, "mp_rank_%02u", r);
            zf_build_withdraw(f.b, (const char *const[]){"other", set}, 2);
        }
        expect_whole(&f, rows * row);
        end(&f);
    }
}

/* Copies that differ in one bit, wherever it is; but after 256 MiB they are counted only. */
static void finds_copies_that_differ(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct fixture f;
        struct zf_cut c;
        bool enough = round % 4 == 0;
        struct zf_copy_check check = {.compared = enough ? 256u << 20 : 0};

        begin(&f);
        f.ndim = 2;
        f.n_ranks = 2 + (uint32_t)random_below(3);
        f.shape[0] = 1 + random_below(7);
        f.shape[1] = 1 + random_below(7);
        for (uint32_t r = 0; r < f.n_ranks; r++) {
            memcpy(f.shard_shape[r], f.shape, sizeof f.shape);
            f.shards[r] = f.shard_shape[r];
        }
        cut(&f);
        f.shard[1 + random_below(f.n_ranks - 1)][random_below(f.shape[0] * f.shape[1])] ^= 1;
        for (uint32_t r = 0; r < f.n_ranks; r++)
            draft_shard(&f, r);
        assert_ok(zf_cut_lay(&f.rule, f.ndim, f.shards, f.n_ranks, f.a, &c, &err), &err);
        if (enough) {
            assert_ok(zf_cut_draft(&c, f.b, whole_spot, f.draft, &check, &err), &err);
            assert_int_equal(check.unchecked, f.n_ranks - 1);
        } else {
            assert_false(zf_cut_draft(&c, f.b, whole_spot, f.draft, &check, &err));
            assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "differ");
        }
        zf_copy_check_fini(&check);
        end(&f);
    }
}

static void refused(const struct zf_cut_rule *rule, uint32_t nd, const uint64_t (*shape)[2],
                    const char *why)
{
    const uint64_t *shard[2] = {shape[0], shape[1]};
    struct zf_cut c;
    struct zf_arena *a = zf_arena_new(1 << 20, &err);

    assert_false(zf_cut_lay(rule, nd, shard, 2, a, &c, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, why);
    zf_arena_free(a);
}

static void refuses_rules_that_do_not_fit(void **state)
{
    static const uint64_t even[2][2] = {{4, 6}, {4, 6}}, uneven[2][2] = {{4, 6}, {3, 5}};
    static const uint64_t width[] = {1, 2, 2, 2}, huge[] = {UINT64_MAX, 2, 5, 2};
    static const uint64_t halves[2][2] = {{1ull << 63, 6}, {1ull << 63, 6}};

    (void)state;
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_DIM, .dim = 2}, 2, even, "dimension 2");
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_DIM}, 0, even, "0 dimensions");
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_DIM}, 2, uneven, "along dimension 1");
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_COPIES}, 2, uneven, "along dimension 0");
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_COPIES, .rows = 5}, 2, even, "5 rows");
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_COPIES, .rows = 1}, 0, even, "0 dimensions");
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_DIM, .rows = 9}, 2, even, "9 rows");
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_SUBS, .n_subs = 3}, 2, even, "equal width");
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_SUBS, .n_subs = 0}, 2, even, "0 sub-parameters");
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_SUBS, .n_subs = 2, .width = width}, 2, even,
            "recorded widths");
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_SUBS, .n_subs = 2, .width = huge}, 2, even,
            "64 bits");
    refused(&(struct zf_cut_rule){.kind = ZF_CUT_DIM}, 2, halves, "the whole is beyond 64 bits");
}

static void refuses_shards_of_other_types(void **state)
{
    const uint64_t shape[1] = {4}, *shards[2] = {shape, shape};
    static struct fixture f;
    struct zf_copy_check check = {0};
    struct zf_cut c;

    (void)state;
    begin(&f);
    assert_ok(zf_cut_lay(&(struct zf_cut_rule){.kind = ZF_CUT_DIM}, 1, shards, 2, f.a, &c, &err),
              &err);
    for (uint32_t r = 0; r < 2; r++) {
        f.draft[r] = zf_build_tensor(f.b, (struct zf_spot){r ? "1" : "0", "w", 1},
                                     (struct zf_type){r ? ZF_DT_BF16 : ZF_DT_F16, 1, shape}, &err);
        assert_ok(f.draft[r], &err);
    }
    assert_false(zf_cut_draft(&c, f.b, whole_spot, f.draft, &check, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE,
               "the shard of rank 1 has another dtype than that of rank 0");
    zf_copy_check_fini(&check);
    end(&f);
}

static void not_proved(struct zf_cut_part *part, uint32_t n, enum zf_code code, const char *why)
{
    static const uint64_t shape[2] = {4, 4};
    const struct zf_cut c = {.ndim = 2, .n_ranks = n, .shape = shape, .part = part};

    assert_false(zf_cut_prove(&c, &err));
    assert_err(&err, code, ZF_OFF_NONE, why);
}

static void proves_that_boxes_tile(void **state)
{
    static const uint64_t zero[2] = {0, 0}, half[2] = {2, 4}, lower[2] = {2, 0}, mid[2] = {1, 0};
    static const uint64_t far[2] = {UINT64_MAX - 1, 0}, none[2] = {0, 4};
    struct zf_cut_box a = {zero, zero, half}, b = {zero, lower, half}, over = {zero, mid, half};
    struct zf_cut_box out = {zero, far, half}, empty = {zero, far, none};
    const uint64_t shape[2] = {4, 4};
    struct zf_cut_part two[2] = {{&a, 1}, {&b, 1}}, overlap[2] = {{&a, 1}, {&over, 1}};
    struct zf_cut_part copies[3] = {{&a, 1}, {&b, 1}, {&b, 1}}, hole[2] = {{&a, 1}, {&a, 1}};
    struct zf_cut_part outside[2] = {{&a, 1}, {&out, 1}},
                       nothing[3] = {{&a, 1}, {&b, 1}, {&empty, 1}};
    struct zf_cut c = {.ndim = 2, .n_ranks = 2, .shape = shape, .part = two};

    (void)state;
    assert_ok(zf_cut_prove(&c, &err), &err);
    c.n_ranks = 3;
    c.part = copies;
    assert_ok(zf_cut_prove(&c, &err), &err);
    c.part = nothing;
    assert_ok(zf_cut_prove(&c, &err), &err);
    not_proved(overlap, 2, ZF_E_FORMAT, "overlaps one of rank 0");
    not_proved(hole, 2, ZF_E_FORMAT, "8 elements");
    not_proved(outside, 2, ZF_E_FORMAT, "outside the whole");

    /* a row in 4,096 pieces, and in one more */
    enum { MOST_BOXES = 4096 };
    static uint64_t at[MOST_BOXES + 1][1];
    static struct zf_cut_box box[MOST_BOXES + 1];
    const uint64_t one[1] = {1}, large[2] = {1ull << 33, 1ull << 33};
    for (uint64_t i = 0; i <= MOST_BOXES; i++) {
        at[i][0] = i;
        box[i] = (struct zf_cut_box){zero, at[i], one};
    }
    for (uint32_t n = MOST_BOXES; n <= MOST_BOXES + 1; n++) {
        const uint64_t row[1] = {n};
        const struct zf_cut_part many = {box, n};

        c = (struct zf_cut){.ndim = 1, .n_ranks = 1, .shape = row, .part = &many};
        assert_int_equal(zf_cut_prove(&c, &err), n == MOST_BOXES);
    }
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "it has more than 4096 pieces");
    c = (struct zf_cut){.ndim = 2, .n_ranks = 2, .shape = large, .part = two};
    assert_false(zf_cut_prove(&c, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "the whole is beyond 64 bits");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins_what_was_cut),
        cmocka_unit_test(finds_copies_that_differ),
        cmocka_unit_test(refuses_rules_that_do_not_fit),
        cmocka_unit_test(refuses_shards_of_other_types),
        cmocka_unit_test(proves_that_boxes_tile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
