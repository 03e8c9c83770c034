/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters named by param_slice_mappings alone: cut over ranks, several vectors of experts, shapes by the weights. */
#include "support/unit.h"

#include "src/format/deepspeed/steps.h"

#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }

struct made {
    struct zf_limits lim;
    struct zf_open_opts o;
    struct ds_save ds;
    struct ds_part part[4], *list[4]; /* of one group a rank */
    struct ds_optim optim[4];
    struct ds_rank mp;
    struct zf_err err;
};

/* Four ranks, of which two share a vector, each with two slices: of a or what it has of b. */
static void make(struct made *m, struct ds_slice slice[4][2], uint32_t n_dp)
{
    *m = (struct made){.lim = zf_limits_default()};
    m->o = (struct zf_open_opts){.lim = &m->lim};
    m->ds = (struct ds_save){.o = &m->o, .a = zf_arena_new(1 << 20, &m->err)};
    for (uint32_t r = 0; r < 4; r++) {
        m->part[r] = (struct ds_part){.dp = r, .partitions = 2, .slice = slice[r], .n_slices = 2};
        m->list[r] = &m->part[r];
        m->optim[r] = (struct ds_optim){
            .path = "some_optim_states.pt", .dp = r, .part = &m->list[r], .n_parts = 1};
    }
    m->mp = (struct ds_rank){.save = &m->ds, .optim = m->optim, .n_dp = n_dp};
}

/* a: 10 elements of rank 0; b: 2 there and 7 on rank 1; c: 3 on rank 1 */
static struct ds_slice good[4][2] = {
    {{NAME("a"), 0, 10}, {NAME("b"), 10, 2}},
    {{NAME("b"), 0, 7}, {NAME("c"), 7, 3}},
};

static void joins_what_is_cut(void **state)
{
    static const uint64_t want[] = {10, 9, 3};
    struct made m;

    (void)state;
    make(&m, good, 2);
    struct ds_shapes *got = ds_mappings_join(&m.mp, 1, &m.err);
    assert_non_null(got);
    assert_int_equal(got->n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(got->param[i].name.p[0], "abc"[i]);
        assert_int_equal(got->param[i].n, want[i]);
        assert_int_equal(got->param[i].ndim, 1);
        assert_int_equal(got->param[i].shape[0], want[i]);
    }
    zf_arena_free(m.ds.a);
}

/* Vectors 0 and 1 of experts lie on ranks 0, 2 and 1, 3, or in blocks on 0, 1 and 2, 3. */
static void other_experts_have_the_same(void **state)
{
    (void)state;
    for (int blocks = 0; blocks < 2; blocks++) {
        for (uint32_t r = 0; r < 4; r++) {
            for (int fault = 0; fault < 4; fault++) {
                struct ds_slice slice[4][2];
                struct made m;

                for (uint32_t k = 0; k < 4; k++)
                    memcpy(slice[k], good[blocks ? k % 2 : k / 2], sizeof slice[k]);
                slice[r][1].n += fault == 1;
                slice[r][1].name.p = fault == 2 ? "z" : slice[r][1].name.p;
                make(&m, slice, 4);
                m.mp.blocks = blocks;
                m.part[r].n_slices -= fault == 3;
                assert_int_equal(ds_mappings_join(&m.mp, 1, &m.err) != NULL, fault == 0);
                zf_arena_free(m.ds.a);
            }
        }
    }
}

static void refuses(void **state)
{
    struct ds_slice slice[4][2];
    struct made m;

    (void)state;
    for (int by = -1; by <= 1; by += 2) { /* an overlap, a hole */
        memcpy(slice, good, sizeof slice);
        slice[0][1].start += (uint64_t)(int64_t)by;
        make(&m, slice, 2);
        assert_null(ds_mappings_join(&m.mp, 1, &m.err));
        assert_non_null(strstr(m.err.msg, "expected 10"));
        zf_arena_free(m.ds.a);
    }
    memcpy(slice, good, sizeof slice);
    slice[1][0].n = UINT64_MAX;
    slice[1][1].start = UINT64_MAX;
    slice[1][1].n = 0;
    make(&m, slice, 2);
    assert_null(ds_mappings_join(&m.mp, 1, &m.err));
    assert_non_null(strstr(m.err.msg, "more than 2^64"));
    zf_arena_free(m.ds.a);
    make(&m, good, 2);
    m.optim[1].lost = true;
    assert_null(ds_mappings_join(&m.mp, 1, &m.err));
    assert_non_null(strstr(m.err.msg, "rank 1 is lost"));
    zf_arena_free(m.ds.a);
    make(&m, good, 3); /* which two partitions do not divide */
    assert_null(ds_mappings_join(&m.mp, 1, &m.err));
    zf_arena_free(m.ds.a);
}

static void weights_have_the_shapes(void **state)
{
    static const uint64_t five_two[] = {5, 2};
    struct ds_param param[] = {{.name = NAME("a"), .n = 10, .ndim = 1},
                               {.name = NAME("t"), .n = 10, .ndim = 1}};
    struct ds_param tied = {.name = NAME("t"), .n = 10, .ndim = 2, .shape = five_two};
    struct ds_entry entry = {
        .name = NAME("a"), .tensor = true, .view = {.n = 10, .ndim = 2, .shape = five_two}};
    struct ds_group group = {.n = 2, .param = param};
    struct made m;

    (void)state;
    make(&m, good, 2);
    m.mp.model = (struct ds_model){.entry = &entry, .n_entries = 1};
    assert_true(ds_model_index(&m.ds, &m.mp.model, &m.err));
    m.mp.group = &group;
    m.mp.n_groups = 1;
    m.mp.tied = (struct ds_shapes){&tied, 1};
    assert_true(ds_mappings_shape(&m.mp, &m.err));
    assert_true(param[0].ndim == 2 && param[0].shape == five_two && param[1].ndim == 2);
    tied.n = 9;
    assert_false(ds_mappings_shape(&m.mp, &m.err));
    assert_non_null(strstr(m.err.msg, "the shape of \"t\""));
    tied.n = 10;
    entry.view.n = 9;
    assert_false(ds_mappings_shape(&m.mp, &m.err));
    assert_non_null(strstr(m.err.msg, "the shape of \"a\""));
    zf_arena_free(m.ds.a);
}

/* Expert 12 of a fused tensor whose name has n letters, of which `cut` could be read; and NUL is a letter like any other. */
static const struct ds_entry *fused_weight(uint32_t n, uint32_t cut, char letter)
{
    static char there[1100], asked[1100];
    static struct ds_entry entry[1];
    static const uint32_t by_name[1] = {0};
    const uint64_t whole[] = {16, 2};
    struct made m;

    make(&m, good, 2);
    memset(there, 'w', sizeof there);
    memset(asked, 'w', sizeof asked);
    asked[n - 1] = letter;
    (void)memcpy(there + cut, ".12", 3);
    there[cut - 1] = asked[cut - 1];
    entry[0] = (struct ds_entry){.name = {there, cut + 3}, .tensor = true};
    m.mp.expert = (struct ds_model){.entry = entry, .n_entries = 1, .by_name = by_name};
    const struct ds_param p = {.name = {asked, n}, .ndim = 2, .whole = whole, .first = 10};
    const struct ds_entry *e = ds_experts_weight(&m.mp, &p, 2);
    zf_arena_free(m.ds.a);
    return e;
}

static void a_long_name_is_not_another(void **state)
{
    (void)state;
    assert_non_null(fused_weight(20, 20, 'w'));
    assert_non_null(fused_weight(20, 20, '\0'));
    assert_non_null(fused_weight(1000, 1000, 'x'));
    for (uint32_t n = 21; n < 1090; n++) {
        assert_null(fused_weight(n, n - 1, 'x'));
        assert_null(fused_weight(n, n - 1, '\0'));
        if (n > 900)
            assert_null(fused_weight(n, 900, 'x'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins_what_is_cut),
        cmocka_unit_test(other_experts_have_the_same),
        cmocka_unit_test(refuses),
        cmocka_unit_test(weights_have_the_shapes),
        cmocka_unit_test(a_long_name_is_not_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
