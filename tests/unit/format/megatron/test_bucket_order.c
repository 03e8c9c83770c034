/* SPDX-License-Identifier: Apache-2.0 */
/* Modules in the order in which Megatron's layers make them. */
#include "support/unit.h"

#include "src/format/megatron/bucket_order.h"

/* Each of the names is behind the one in front of it. */
static void assert_in_order(const char *const *name, enum bucket_order order)
{
    uint64_t last = 0;

    for (size_t i = 0; name[i]; i++) {
        const struct mg_text text = {name[i], strlen(name[i])};
        uint64_t rank = bucket_order_module(text, 0, order);

        if (i > 0 && rank <= last)
            fail_msg("%s is not behind %s", name[i], name[i - 1]);
        last = rank;
    }
}

/* Source: transformer_layer.py, attention.py, mlp.py (__init__). */
static void a_layer(void **state)
{
    static const char *const local[] = {"input_layernorm.weight",
                                        "self_attention.linear_proj.weight",
                                        "self_attention.linear_qkv.weight",
                                        "self_attention.q_layernorm.weight",
                                        "self_attention.k_layernorm.weight",
                                        "pre_mlp_layernorm.weight",
                                        "mlp.linear_fc1.weight",
                                        "mlp.linear_fc2.weight",
                                        NULL};
    static const char *const fused[] = {"self_attention.linear_proj.weight",
                                        "self_attention.linear_qkv.layer_norm_weight",
                                        "self_attention.q_layernorm.weight", NULL};

    (void)state;
    assert_in_order(local, BUCKET_LOCAL);
    assert_in_order(fused, BUCKET_FUSED);
}

/* Source: multi_token_prediction.py (MultiTokenPredictionLayer.__init__), 0.12 … 0.19: the norm of the
 * whole is made last. */
static void multi_token_prediction(void **state)
{
    static const char *const order[] = {"enorm.weight",
                                        "hnorm.weight",
                                        "eh_proj.weight",
                                        "transformer_layer.input_layernorm.weight",
                                        "transformer_layer.mlp.linear_fc1.weight",
                                        "transformer_layer.mlp.linear_fc2.weight",
                                        "final_layernorm.weight",
                                        NULL};

    (void)state;
    assert_in_order(order, BUCKET_LOCAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer),
        cmocka_unit_test(multi_token_prediction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
