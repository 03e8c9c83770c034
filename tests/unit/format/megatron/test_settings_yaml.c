/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes out of the YAML of NeMo 1, NeMo 2 and Megatron-Bridge. */
#include "support/unit.h"

#include <stdio.h>

#include "support/store_mem.h"

#include <zf/codec/yaml.h>

#include "src/format/megatron/settings.h"

static struct zf_limits lim;

static int setup(void **state)
{
    (void)state;
    lim = zf_limits_default();
    return 0;
}

static struct megatron_settings reads(const char *yaml)
{
    struct megatron_settings s;
    struct zf_err err = {.code = ZF_OK};

    if (!zf_yaml_here())
        skip();
    assert_ok(megatron_settings_yaml_text(yaml, strlen(yaml), &lim, &s, &err), &err);
    return s;
}

static void refused(const char *yaml, const char *part)
{
    struct megatron_settings s;
    struct zf_err err = {.code = ZF_OK};

    if (!zf_yaml_here())
        skip();
    assert_false(megatron_settings_yaml_text(yaml, strlen(yaml), &lim, &s, &err));
    assert_err(&err, ZF_E_FORMAT, err.off, part);
}

static void reads_each_layout(void **state)
{
    static const char *const at[] = {"", "model:\n  ", "model:\n  transformer:\n    ",
                                     "config:\n  ", "model:\n  config:\n    "};

    (void)state;
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        char yaml[300];
        size_t pad =
            strlen(at[i]) - (size_t)(strrchr(at[i], '\n') ? strrchr(at[i], '\n') + 1 - at[i] : 0);

        (void)snprintf(
            yaml, sizeof yaml,
            "train:\n  num_layers: 9\n%snum_layers: 4\n%*stensor_model_parallel_size: 2\n"
            "%*snum_moe_experts: 8\n%*skv_channels: null\n%*sgated_linear_unit: true\n",
            at[i], (int)pad, "", (int)pad, "", (int)pad, "", (int)pad, "");
        struct megatron_settings s = reads(yaml);
        assert_int_equal(s.num_layers, 4);
        assert_int_equal(s.tensor_model_parallel_size, 2);
        assert_int_equal(s.num_experts, 8);
        assert_int_equal(s.kv_channels, 0);
        assert_true(megatron_settings_gated(&s));
        assert_int_equal(s.swiglu, MEGATRON_UNSAID);
    }
}

static void names_of_other_programs(void **state)
{
    struct megatron_settings s =
        reads("share_embeddings_and_output_weights: false\nactivation: fast-swiglu\n");

    (void)state;
    assert_int_equal(s.untie_embeddings_and_output_weights, MEGATRON_YES);
    assert_true(megatron_settings_gated(&s));
    s = reads("model:\n  share_embeddings_and_output_weights: True\n  activation: gelu\n");
    assert_int_equal(s.untie_embeddings_and_output_weights, MEGATRON_NO);
    assert_false(megatron_settings_gated(&s));
    assert_int_equal(s.gated_linear_unit, MEGATRON_NO);
}

static void what_is_no_size_says_nothing(void **state)
{
    static const char *const odd[] = {
        "~",         "",     "'4'", "${x}",   "4.0", "4e1", "0x4",
        "-4",        "four", "[4]", "{a: 4}", "+4",  "4 4", "1111111111111111111",
        "!!int '4'", "&a"};

    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        char yaml[80];

        (void)snprintf(yaml, sizeof yaml, "model:\n  num_layers: %s\n", odd[i]);
        assert_int_equal(reads(yaml).num_layers, 0);
    }
    assert_int_equal(reads("model.num_layers: 4\n").num_layers, 0);
    assert_int_equal(reads("model:\n  model:\n    num_layers: 4\n").num_layers, 0);
    assert_int_equal(reads("x: &x\n  num_layers: 4\nmodel: *x\n").num_layers, 0);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    refused("num_layers: 4\nmodel:\n  num_layers: 5\n", "model.num_layers is 5");
    refused("num_layers: 4\nnum_layers: 5\n", "num_layers is 5");
    refused("swiglu: true\nswiglu: no\n", "swiglu is no");
    refused("num_moe_experts: 4\nnum_experts: 5\n", "num_experts is 5");
    refused("num_layers: 1048577\n", "expected at most 1048576");
    refused("num_layers: [\n", "invalid YAML at line");
    assert_int_equal(reads("num_layers: 4\nmodel:\n  num_layers: 4\n").num_layers, 4);
}

static void add(struct zf_store *st, const char *path, const char *text)
{
    struct zf_err err = {.code = ZF_OK};

    assert_ok(store_mem_add(st, path, text, strlen(text), &err), &err);
}

static void finds_the_file(void **state)
{
    struct zf_err err = {.code = ZF_OK};
    struct megatron_settings s;
    char file[80];

    (void)state;
    if (!zf_yaml_here())
        skip();
    zf_auto(store) struct zf_store *none = store_mem_new(&lim, &err),
                                   *nemo = store_mem_new(&lim, &err),
                                   *bridge = store_mem_new(&lim, &err),
                                   *bad = store_mem_new(&lim, &err);
    assert_true(none && nemo && bridge && bad);
    assert_ok(megatron_settings_yaml(none, NULL, &lim, &s, file, &err), &err);
    assert_string_equal(file, "");
    add(nemo, "context/model.yaml", "config:\n  num_layers: 3\n");
    assert_ok(megatron_settings_yaml(none, nemo, &lim, &s, file, &err), &err);
    assert_string_equal(file, "context/model.yaml");
    assert_int_equal(s.num_layers, 3);
    add(bridge, "run_config.yaml", "model:\n  num_layers: 2\n");
    assert_ok(megatron_settings_yaml(bridge, nemo, &lim, &s, file, &err), &err);
    assert_string_equal(file, "run_config.yaml");
    assert_int_equal(s.num_layers, 2);
    add(bad, "run_config.yaml", "[");
    assert_false(megatron_settings_yaml(bad, bridge, &lim, &s, file, &err));
    assert_string_equal(err.path, "run_config.yaml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(reads_each_layout, setup),
        cmocka_unit_test_setup(names_of_other_programs, setup),
        cmocka_unit_test_setup(what_is_no_size_says_nothing, setup),
        cmocka_unit_test_setup(contradictions_are_refused, setup),
        cmocka_unit_test_setup(finds_the_file, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
