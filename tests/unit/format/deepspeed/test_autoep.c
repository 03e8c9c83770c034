/* SPDX-License-Identifier: Apache-2.0 */
/* ds_autoep_layers: how a layer's experts are cut over ranks, and what is refused of it. */
#include "support/pickled.h"

#include <stdio.h>

#include "src/format/deepspeed/steps.h"

/* A layer of four experts of 3 x 2 on two ranks; what the second has, and how many there are. */
#define RANK(e, n, from, to)                                                                       \
#e ": {'shard_shape': [" n ", 3, 2], 'pieces': [{'shape': [" n ", 3, 2], 'source': [" from     \
       ", [6, 2, 1]], 'dest': [" to ", [6, 2, 1]]}]}"
#define LAYER(name, all, experts, second)                                                          \
    "{'expert_key_prefix': '" name                                                                 \
    "', 'ep_rank': 1, 'expert_placement': {'ranks': [{'rank': 0, 'experts': [0, 1]}, "             \
    "{'rank': 1, 'experts': " experts "}]}, 'affine_maps': {'params': {'" name                     \
    ".w1': {'logical_shape': [" all ", 3, 2], 'ranks': {" RANK(0, "2", "0", "0") ", " second       \
                                                                                 "}}}}}"

/* The second rank has two pieces of one expert each, or a row of every expert. */
#define PIECE(from, to)                                                                            \
    "{'shape': [1, 3, 2], 'source': [" from ", [6, 2, 1]], 'dest': [" to ", [6, 2, 1]]}"
#define TWO(from, to, from_2, to_2)                                                                \
    "1: {'shard_shape': [2, 3, 2], 'pieces': [" PIECE(from, to) ", " PIECE(from_2, to_2) "]}"
#define ROWS                                                                                       \
    "1: {'shard_shape': [4, 1, 2], 'pieces': [{'shape': [4, 1, 2], 'source': [2, [6, 2, 1]], "     \
    "'dest': [0, [2, 2, 1]]}]}"

struct made {
    struct zf_arena *a;
    struct ds_fused *fused;
    uint32_t n;
    struct zf_err err;
};

static bool read_layers(struct made *m, const char *literal)
{
    zf_arena_free(m->a);
    zf_err_clear(&m->err);
    m->a = zf_arena_new(1 << 20, &m->err);
    struct zf_taker t = {.arena = m->a};
    const struct zf_take layers = zf_take_root(&t, pickled(literal, m->a));
    ds_autoep_take(&layers, 100, &m->fused, &m->n);
    return zf_take_ok(&t, &m->err);
}

static void says_who_has_which(void **state)
{
    struct made m = {0};

    (void)state;
    assert_true(read_layers(&m, "[" LAYER("m.9", "4", "[2, 3]", RANK(1, "2", "12", "0")) ", " LAYER(
                                    "m.10", "3", "[2]", RANK(1, "1", "12", "0")) "]"));
    assert_int_equal(m.n, 2);
    const struct ds_fused *f = ds_autoep_find(m.fused, m.n, (struct ds_name){"m.9.w1", 6});
    assert_non_null(f);
    assert_int_equal(f->ndim, 3);
    assert_int_equal(f->shape[0], 4);
    assert_int_equal(f->n_ep, 2);
    assert_int_equal(f->ep_rank, 1);
    assert_true(f->first[0] == 0 && f->n[0] == 2 && f->first[1] == 2 && f->n[1] == 2);
    f = ds_autoep_find(m.fused, m.n, (struct ds_name){"m.10.w1", 7});
    assert_non_null(f);
    assert_true(f->first[1] == 2 && f->n[1] == 1);
    assert_null(ds_autoep_find(m.fused, m.n, (struct ds_name){"m.9.w2", 6}));
    assert_null(ds_autoep_find(NULL, 0, (struct ds_name){"m.9.w1", 6}));
    zf_arena_free(m.a);
}

static void without_maps(void **state)
{
    static const char *const names[] = {"p.w1", "p.w2", "p.w3"};
    struct made m = {0};

    (void)state;
    assert_true(
        read_layers(&m, "[{'expert_key_prefix': 'p', 'ep_size': 3, 'num_local_experts': 2}]"));
    assert_int_equal(m.n, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct ds_fused *f = ds_autoep_find(m.fused, m.n, (struct ds_name){names[i], 4});

        assert_non_null(f);
        assert_null(f->shape);
        assert_int_equal(f->n_ep, 3);
        assert_int_equal(f->ep_rank, UINT32_MAX);
        assert_true(f->first[2] == 4 && f->n[2] == 2);
    }
    zf_arena_free(m.a);
}

static void refuses(void **state)
{
    static const struct {
        const char *layers;
        enum zf_code code;
        const char *place, *says;
    } row[] = {
        {LAYER("m", "4", "[1, 2]", RANK(1, "2", "6", "0")), ZF_E_FORMAT, "!m.w1!ranks[1]",
         "begins with expert 1, expected 2"},
        {LAYER("m", "4", "[3]", RANK(1, "1", "18", "0")), ZF_E_FORMAT, "!m.w1!ranks[1]",
         "begins with expert 3, expected 2"},
        {LAYER("m", "4", "[2, 3]", RANK(1, "2", "13", "0")), ZF_E_FORMAT, "!ranks[1]!pieces[0]",
         "outside the whole tensor"},
        {LAYER("m", "4", "[2, 3]", RANK(1, "2", "12", "6")), ZF_E_FORMAT, "!ranks[1]!pieces[0]",
         "outside the shard"},
        {LAYER("m", "4", "[3, 2]", RANK(1, "2", "12", "0")), ZF_E_FORMAT,
         "!expert_placement!ranks[1]", "other experts"},
        {LAYER("m", "4", "[2]", RANK(1, "2", "12", "0")), ZF_E_FORMAT, "!expert_placement!ranks[1]",
         "other experts"},
        {LAYER("m", "4", "[2]", RANK(1, "1", "12", "0")), ZF_E_FORMAT, "!params!m.w1",
         "covers 3 of 4"},
        {LAYER("m", "3", "[2, 3]", RANK(1, "2", "12", "0")), ZF_E_FORMAT, "!ranks[1]!pieces[0]",
         "outside the whole tensor"},
        {LAYER("m", "4", "[2, 3]", RANK(2, "2", "12", "0")), ZF_E_FORMAT, "!ranks[1]!shard_shape",
         "missing"},
        {LAYER("m", "'x'", "[2, 3]", RANK(1, "2", "12", "0")), ZF_E_FORMAT, "!logical_shape[0]",
         "a text"},
        {LAYER("m", "4", "[2, 3]", RANK(1, "2", "'x'", "0")), ZF_E_FORMAT,
         "!ranks[1]!pieces[0]!source[0]", "a text"},
        {LAYER("m", "4", "[2, 3]", TWO("18", "0", "12", "6")), ZF_E_UNSUPPORTED, "!ranks[1]",
         "consecutive experts"},
        {LAYER("m", "4", "[2, 3]", ROWS), ZF_E_UNSUPPORTED, "!ranks[1]", "consecutive experts"},
        {LAYER("m", "4", "[2, 3]", TWO("12", "0", "12", "0")), ZF_E_FORMAT, "!ranks[1]!pieces",
         "each element of the shard exactly once"},
        {"{'expert_key_prefix': 'p', 'ep_size': 0, 'num_local_experts': 2}", ZF_E_FORMAT,
         "[0]!ep_size", "found 0"},
        {"{'expert_key_prefix': 'p', 'ep_size': 2}", ZF_E_FORMAT, "[0]!num_local_experts",
         "missing"},
        {"{'expert_key_prefix': 7, 'ep_size': 2, 'num_local_experts': 2}", ZF_E_FORMAT,
         "[0]!expert_key_prefix", "found 7"},
    };
    struct made m = {0};
    char layers[2000];

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        (void)snprintf(layers, sizeof layers, "[%s]", row[i].layers);
        assert_false(read_layers(&m, layers));
        size_t n = strlen(m.err.path), k = strlen(row[i].place);
        if (m.err.code != row[i].code || !strstr(m.err.msg, row[i].says) || n < k ||
            strcmp(m.err.path + n - k, row[i].place) != 0)
            fail_msg("%zu: %d %s: %s", i, m.err.code, m.err.path, m.err.msg);
    }
    zf_arena_free(m.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_who_has_which),
        cmocka_unit_test(without_maps),
        cmocka_unit_test(refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
