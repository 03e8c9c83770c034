/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and flags out of the pickled args of a training job. */
#include "support/pickled.h"

#include "src/format/megatron/settings.h"

/* Reads the settings of the args in a pickle, a Namespace or a dict of these fields; what of err is asked with `code`. */
static enum zf_code settings_of(const char *fields, bool is_namespace,
                                struct megatron_settings *out, struct zf_err *err)
{
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, err);

    assert_non_null(a);
    zf_err_clear(err);
    (void)!megatron_settings_args(
        is_namespace ? pickled_between("cargparse\nNamespace\n)\x81", fields, "b.", a)
                     : pickled(fields, a),
        out, err);
    return err->code;
}

static void reads_a_namespace(void **state)
{
    struct megatron_settings s;
    struct zf_err err;

    (void)state;
    assert_int_equal(settings_of("{'num_layers': 4, 'hidden_size': 16, 'kv_channels': N, "
                                 "'num_attention_heads': 2, 'num_query_groups': 1, "
                                 "'group_query_attention': F, 'swiglu': 1, 'save': 'ckpt', "
                                 "'ffn_hidden_size': 'odd'}",
                                 true, &s, &err),
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
        settings_of("{'tensor_model_parallel_size': 2, 'num_layers': 4}", false, &s, &err), ZF_OK);
    assert_int_equal(s.tensor_model_parallel_size, 2);
    assert_int_equal(megatron_settings_expert_tensor(&s), 2);
    assert_int_equal(settings_of("N", false, &s, &err), ZF_OK);
    assert_int_equal(s.num_layers, 0);
    assert_int_equal(megatron_settings_head(&s), 0);
}

static void refuses_what_is_no_size(void **state)
{
    struct megatron_settings s;
    struct zf_err err;

    (void)state;
    assert_int_equal(settings_of("{'num_layers': -1}", true, &s, &err), ZF_E_FORMAT);
    assert_non_null(strstr(err.msg, "num_layers"));
    assert_int_equal(settings_of("{'num_layers': 1048576}", true, &s, &err), ZF_OK);
    assert_int_equal(settings_of("{'num_layers': 1048577}", true, &s, &err), ZF_E_FORMAT);
    assert_int_equal(settings_of("{'hidden_size': 99999999999999999999999}", true, &s, &err),
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
