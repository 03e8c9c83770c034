/* SPDX-License-Identifier: Apache-2.0 */
/* ds_autoep_layers: how a layer's experts are cut over ranks, and what is refused of it. */
#include "support/pickled.h"

#include <stdio.h>

#include "src/format/deepspeed/autoep.h"

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

struct made {
    struct zf_arena *a;
    struct ds_fused *fused;
    uint32_t n;
    struct zf_err err;
};

static bool read_layers(struct made *m, const char *literal)
{
    struct zf_limits lim = zf_limits_default();
    const struct zf_open_opts o = {.lim = &lim};

    zf_arena_free(m->a);
    zf_err_clear(&m->err);
    m->a = zf_arena_new(1 << 20, &m->err);
    struct ds_save ds = {.a = m->a, .o = &o};
    return ds_autoep_read(&ds, pickled(literal, m->a), &m->fused, &m->n, &m->err);
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
        const char *says;
    } row[] = {
        {LAYER("m", "4", "[1, 2]", RANK(1, "2", "6", "0")), ZF_E_FORMAT,
         "begin with expert 1, expected 2"},
        {LAYER("m", "4", "[3]", RANK(1, "1", "18", "0")), ZF_E_FORMAT,
         "begin with expert 3, expected 2"},
        {LAYER("m", "4", "[2, 3]", RANK(1, "2", "13", "0")), ZF_E_UNSUPPORTED, "cut otherwise"},
        {LAYER("m", "4", "[2, 3]", RANK(1, "2", "12", "6")), ZF_E_UNSUPPORTED, "cut otherwise"},
        {LAYER("m", "4", "[3, 2]", RANK(1, "2", "12", "0")), ZF_E_FORMAT,
         "expert_placement.ranks[1]"},
        {LAYER("m", "4", "[2]", RANK(1, "2", "12", "0")), ZF_E_FORMAT, "expert_placement.ranks[1]"},
        {LAYER("m", "4", "[2]", RANK(1, "1", "12", "0")), ZF_E_FORMAT, "covers 3 of 4"},
        {LAYER("m", "3", "[2, 3]", RANK(1, "2", "12", "0")), ZF_E_FORMAT,
         "puts 2 experts behind expert 2 of 3"},
        {LAYER("m", "4", "[2, 3]", RANK(2, "2", "12", "0")), ZF_E_FORMAT, "are not 0, 1"},
        {LAYER("m", "'x'", "[2, 3]", RANK(1, "2", "12", "0")), ZF_E_FORMAT,
         "logical_shape is not a list of 3"},
        {LAYER("m", "4", "[2, 3]", RANK(1, "2", "'x'", "0")), ZF_E_FORMAT,
         "offset of an affine map is no number"},
        {"{'expert_key_prefix': 'p', 'ep_size': 0, 'num_local_experts': 2}", ZF_E_FORMAT,
         "no ep_size"},
        {"{'expert_key_prefix': 'p', 'ep_size': 2}", ZF_E_FORMAT, "no ep_size"},
        {"{'expert_key_prefix': 7, 'ep_size': 2, 'num_local_experts': 2}", ZF_E_FORMAT,
         "expert_key_prefix"},
    };
    struct made m = {0};
    char layers[2000];

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        (void)snprintf(layers, sizeof layers, "[%s]", row[i].layers);
        assert_false(read_layers(&m, layers));
        if (m.err.code != row[i].code || !strstr(m.err.msg, row[i].says)) {
            fail_msg("%s: %d %s", row[i].layers, m.err.code, m.err.msg);
        }
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
