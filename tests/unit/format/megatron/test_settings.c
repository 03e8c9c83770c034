/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and flags out of the pickled args of a training job. */
#include "support/unit.h"

#include "src/format/megatron/settings.h"

/* Reads the settings of the args in pickle text; what of err is asked with `code`. */
static enum zf_code settings_of(const char *pickle, struct megatron_settings *out,
                                struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, err);
    struct zf_bytes in = zf_bytes_of((const uint8_t *)pickle, strlen(pickle));
    const struct zf_pv *v;

    assert_non_null(a);
    zf_err_clear(err);
    v = zf_pickle_load(&in, a, &lim, err);
    assert_non_null(v);
    (void)!megatron_settings_args(v, out, err);
    return err->code;
}

#define NAMESPACE(fields) "cargparse\nNamespace\n)\x81}(" fields "ub."

static void reads_a_namespace(void **state)
{
    struct megatron_settings s;
    struct zf_err err;

    (void)state;
    assert_int_equal(settings_of(NAMESPACE("Vnum_layers\nI4\nVhidden_size\nI16\nVkv_channels\nN"
                                           "Vnum_attention_heads\nI2\nVnum_query_groups\nI1\n"
                                           "Vgroup_query_attention\nI00\nVswiglu\nI1\n"
                                           "Vsave\nVckpt\nVffn_hidden_size\nVodd\n"),
                                 &s, &err),
                     ZF_OK);
    assert_int_equal(s.num_layers, 4);
    assert_int_equal(s.hidden_size, 16);
    assert_int_equal(s.ffn_hidden_size, 0);
    assert_int_equal(s.swiglu, MEGATRON_YES);
    assert_int_equal(s.quick_geglu, MEGATRON_UNSAID);
    assert_true(megatron_settings_gated(&s));
    assert_int_equal(megatron_settings_head(&s), 8);
    assert_int_equal(megatron_settings_groups(&s), 2); /* the flag says that groups are not used */
    s.group_query_attention = MEGATRON_YES;
    assert_int_equal(megatron_settings_groups(&s), 1);
}

static void reads_a_mapping(void **state)
{
    struct megatron_settings s;
    struct zf_err err;

    (void)state;
    assert_int_equal(
        settings_of("(dVtensor_model_parallel_size\nI2\nsVnum_layers\nI4\ns.", &s, &err), ZF_OK);
    assert_int_equal(s.tensor_model_parallel_size, 2);
    assert_int_equal(megatron_settings_expert_tensor(&s), 2);
    assert_int_equal(settings_of("N.", &s, &err), ZF_OK);
    assert_int_equal(s.num_layers, 0);
    assert_int_equal(megatron_settings_head(&s), 0);
}

static void refuses_what_is_no_size(void **state)
{
    struct megatron_settings s;
    struct zf_err err;

    (void)state;
    assert_int_equal(settings_of(NAMESPACE("Vnum_layers\nI-1\n"), &s, &err), ZF_E_FORMAT);
    assert_non_null(strstr(err.msg, "num_layers"));
    assert_int_equal(settings_of(NAMESPACE("Vnum_layers\nI1048576\n"), &s, &err), ZF_OK);
    assert_int_equal(settings_of(NAMESPACE("Vnum_layers\nI1048577\n"), &s, &err), ZF_E_FORMAT);
    assert_int_equal(settings_of(NAMESPACE("Vhidden_size\nL99999999999999999999999L\n"), &s, &err),
                     ZF_E_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_namespace),
        cmocka_unit_test(reads_a_mapping),
        cmocka_unit_test(refuses_what_is_no_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
