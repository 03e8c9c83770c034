/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of plain torch.distributed.checkpoint saves of Megatron, as core 0.15.3, 0.16.1 and 0.19.2 write them. */
#include "support/unit.h"

#include "src/format/megatron/keys.h"
#include "src/format/megatron/save.h"

static void means(const char *key, enum mg_what what, const char *state, const char *name)
{
    struct mg_key k;

    mg_fsdp_key(key, strlen(key), &k);
    assert_int_equal(k.what, what);
    assert_int_equal(k.state.n, strlen(state));
    assert_memory_equal(k.state.p ? k.state.p : "", state, strlen(state));
    assert_int_equal(k.name.n, strlen(name));
    assert_memory_equal(k.name.p, name, strlen(name));
    assert_int_equal(k.layer_at, 0);
    assert_int_equal(k.expert_at, 0);
}

static void weights(void **state)
{
    (void)state;
    means("model.module.decoder.layers.0.mlp.linear_fc1.weight_w", MG_WEIGHT, "",
          "decoder.layers.0.mlp.linear_fc1.weight_w");
    means("model.module.module.module.output_layer.weight", MG_WEIGHT, "", "output_layer.weight");
    means("model.embedding.word_embeddings.weight", MG_WEIGHT, "",
          "embedding.word_embeddings.weight");
    means("model.model.w", MG_WEIGHT, "", "model.w"); /* never a second model. */
    means("model.module.model.w", MG_WEIGHT, "", "model.w");
    means("model.module.", MG_WEIGHT, "", "module.");
    means("model.module", MG_WEIGHT, "", "module");
    means("model.", MG_OTHER, "", "model.");
    means("model0.decoder.w", MG_OTHER, "", "model0.decoder.w");
    means("", MG_OTHER, "", "");
}

static void optimizer(void **state)
{
    struct mg_key k;

    (void)state;
    means("optimizer.state.module.module.decoder.final_layernorm.weight.exp_avg", MG_STATE,
          "exp_avg", "decoder.final_layernorm.weight");
    means("optimizer.state.model.w.step", MG_STATE, "step", "model.w");
    means("optimizer.state.module.module.exp_avg", MG_STATE, "exp_avg", "module");
    means("optimizer.state.3.exp_avg_sq", MG_STATE, "exp_avg_sq", "3");
    means("optimizer.optimizer.state.3.exp_avg", MG_STATE, "exp_avg", "3");
    means("optimizer.1.optimizer.state.3.exp_avg", MG_STATE, "exp_avg", "3");
    means("optimizer.fp32_from_fp16_params.0.12", MG_STATE, "fp32_from_fp16_params", "0.12");
    means("optimizer.state.exp_avg", MG_OTHER, "", "optimizer.state.exp_avg");
    means("optimizer.state..exp_avg", MG_OTHER, "", "optimizer.state..exp_avg");
    means("optimizer.state.w.", MG_OTHER, "", "optimizer.state.w.");
    means("optimizer.param_groups.0.lr", MG_OTHER, "", "optimizer.param_groups.0.lr");
    means("optimizer.fp32_from_fp16_params.", MG_OTHER, "", "optimizer.fp32_from_fp16_params.");
    means("rng_state.(0, 0).0.torch_rng_state", MG_OTHER, "", "rng_state.(0, 0).0.torch_rng_state");
    mg_fsdp_key("optimizer.1.state.w.step", 24, &k);
    assert_int_equal(k.chain, 1);
    mg_fsdp_key("optimizer.state.w.step", 22, &k);
    assert_int_equal(k.chain, MG_NO_CHAIN);
}

static void iterations(void **state)
{
    uint64_t n;

    (void)state;
    assert_true(mg_iteration_of("iter_0000010", &n) && n == 10);
    assert_true(mg_iteration_of("iter_12345678", &n) && n == 12345678);
    assert_false(mg_iteration_of("iter_000010", &n));
    assert_false(mg_iteration_of("iter_0000010_old", &n));
    assert_false(mg_iteration_of("iter_9999999999999999999", &n));
    assert_false(mg_iteration_of("release", &n));
    assert_true(mg_text_number((struct mg_text){"007", 3}, &n) && n == 7);
    assert_false(mg_text_number((struct mg_text){"", 0}, &n));
    assert_false(mg_text_number((struct mg_text){"7a", 2}, &n));
    assert_false(mg_text_number((struct mg_text){"1111111111111111111", 19}, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights),
        cmocka_unit_test(optimizer),
        cmocka_unit_test(iterations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
