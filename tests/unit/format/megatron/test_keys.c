/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron's keys: what they say, and the names that slices get. */
#include "support/unit.h"

#include "src/format/megatron/keys.h"

static void assert_text(struct mg_text t, const char *want)
{
    assert_int_equal(t.n, strlen(want));
    assert_memory_equal(t.p, want, t.n);
}

static struct mg_key key_of(const char *key)
{
    struct mg_key k;

    mg_key_parse(key, strlen(key), &k);
    return k;
}

static void weights_lose_what_wraps_them(void **state)
{
    static const struct {
        const char *key, *name;
    } row[] = {
        {"embedding.word_embeddings.weight", "embedding.word_embeddings.weight"},
        {"module.decoder.final_layernorm.weight", "decoder.final_layernorm.weight"},
        {"model.module.module.output_layer.weight", "output_layer.weight"},
        {"model.model.weight", "model.weight"},
        {"module.", "module."},
        {"model.module.", "module."},
        {"", ""},
        {"..", ".."},
        {"dir/with/slash", "dir/with/slash"},
        {"chained_0.optimizer", "chained_0.optimizer"},
        {"optimizer", "optimizer"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct mg_key k = key_of(row[i].key);

        assert_int_equal(k.what, MG_WEIGHT);
        assert_text(k.name, row[i].name);
        assert_int_equal(k.state.n, 0);
    }
}

static void states_name_their_parameter(void **state)
{
    struct mg_key k = key_of("optimizer.state.exp_avg.module.decoder.layers.0.mlp.weight");

    (void)state;
    assert_int_equal(k.what, MG_STATE);
    assert_int_equal(k.chain, MG_NO_CHAIN);
    assert_text(k.state, "exp_avg");
    assert_text(k.name, "decoder.layers.0.mlp.weight");
    assert_int_equal(k.layer_at, 0);
    assert_false(mg_key_is_master(k.state));

    k = key_of("chained_12.optimizer.state.fp32_param.output_layer.weight");
    assert_int_equal(k.what, MG_STATE);
    assert_int_equal(k.chain, 12);
    assert_true(mg_key_is_master(k.state));
    assert_text(k.name, "output_layer.weight");

    assert_int_equal(key_of("optimizer.state.exp_avg").what, MG_OTHER);
    assert_int_equal(key_of("optimizer.state.exp_avg.").what, MG_OTHER);
    assert_int_equal(key_of("optimizer.state..x").what, MG_OTHER);
    assert_int_equal(key_of("optimizer.param_groups.0").what, MG_OTHER);
    assert_int_equal(key_of("rng_state.0").what, MG_OTHER);
}

static void buckets_have_numbers(void **state)
{
#define FLAT                                                                                       \
    "optimizer.distributed.dp_group_idx_3.gbuf_idx_1.dtype_(torch.bfloat16, torch.float32)."
    struct mg_key k = key_of("chained_1." FLAT "bucket_idx_2.exp_avg_sq");

    (void)state;
    assert_int_equal(k.what, MG_BUCKET);
    assert_int_equal(k.chain, 1);
    assert_int_equal(k.flat.group, 3);
    assert_int_equal(k.flat.gbuf, 1);
    assert_int_equal(k.flat.bucket, 2);
    assert_text(k.flat.dtype, "(torch.bfloat16, torch.float32)");
    assert_text(k.state, "exp_avg_sq");

    assert_int_equal(key_of(FLAT "bucket_idx_2.").what, MG_OTHER);
    assert_int_equal(key_of(FLAT "bucket_idx_x.param").what, MG_OTHER);
    assert_int_equal(key_of("optimizer.distributed.dp_group_idx_0.optimizer").what, MG_OTHER);
    assert_int_equal(key_of("optimizer.distributed.dp_group_idx_9999999999999999999.gbuf_idx_0."
                            "dtype_x.bucket_idx_0.p")
                         .what,
                     MG_OTHER);
}

static void objects_are_told_from_the_right(void **state)
{
    struct mg_key k = key_of("a/shard_0_1/b/shard_0.1_1.2");

    (void)state;
    assert_int_equal(k.what, MG_OBJECT);
    assert_text(k.name, "a/shard_0_1/b");
    assert_int_equal(key_of("rng_state/shard_0.1_1.2").what, MG_OBJECT);
    assert_int_equal(key_of("a/shard_0_").what, MG_WEIGHT);
    assert_int_equal(key_of("a/shard__1").what, MG_WEIGHT);
    assert_int_equal(key_of("a/shard_0._1").what, MG_WEIGHT);
    assert_int_equal(key_of("a/shard_.0_1").what, MG_WEIGHT);
    assert_int_equal(key_of("a/shard_0..1_1").what, MG_WEIGHT);
    assert_int_equal(key_of("a/shard_0_1.pt").what, MG_WEIGHT);
}

static void slices_are_numbered(void **state)
{
    static const struct {
        const char *key;
        uint64_t layer, expert;
        const char *name;
    } row[] = {
        {"decoder.layers.mlp.weight", 7, MG_NONE, "decoder.layers.7.mlp.weight"},
        {"decoder.layers.mlp.experts.experts.linear_fc1.weight", 7, 12,
         "decoder.layers.7.mlp.experts.experts.12.linear_fc1.weight"},
        {"decoder.layers.3.mlp.experts.experts.linear_fc1.weight", 9, 0,
         "decoder.layers.3.mlp.experts.experts.0.linear_fc1.weight"},
        {"module.encoder.layers.norm.weight", 0, 3, "encoder.layers.0.norm.weight"},
        {"layers.x", 1, MG_NONE, "layers.1.x"},
        {"decoder.layers.mlp.weight", MG_NONE, MG_NONE, "decoder.layers.mlp.weight"},
        {"decoder.players.x", 1, 1, "decoder.players.x"},
        {"decoder.layers.", 1, 1, "decoder.layers."},
        {"mtp.layers.0.transformer_layer.mlp.experts.experts.1.w", 4, 4,
         "mtp.layers.0.transformer_layer.mlp.experts.experts.1.w"},
    };
    char name[128];

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct mg_key k = key_of(row[i].key);
        size_t n = mg_key_numbered(&k, row[i].layer, row[i].expert, name, sizeof name);

        assert_string_equal(name, row[i].name);
        assert_int_equal(n, strlen(row[i].name));
    }
}

/* Keys may hold any byte, and none of them ends a name. */
static void slices_of_any_bytes_are_numbered(void **state)
{
    static const char key[] = "decoder.layers.a\0b.weight", want[] = "decoder.layers.3.a\0b.weight";
    char name[128];
    struct mg_key k;

    (void)state;
    mg_key_parse(key, sizeof key - 1, &k);
    assert_int_equal(mg_key_numbered(&k, 3, MG_NONE, name, sizeof name), sizeof want - 1);
    assert_memory_equal(name, want, sizeof want);
    /* cut where there is no room, and ended all the same */
    memset(name, 'x', sizeof name);
    assert_int_equal(mg_key_numbered(&k, 3, MG_NONE, name, 17), sizeof want - 1);
    assert_memory_equal(name, "decoder.layers.3\0x", 18);
    assert_int_equal(mg_key_numbered(&k, 3, MG_NONE, name, 0), sizeof want - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_lose_what_wraps_them),
        cmocka_unit_test(states_name_their_parameter),
        cmocka_unit_test(buckets_have_numbers),
        cmocka_unit_test(objects_are_told_from_the_right),
        cmocka_unit_test(slices_are_numbered),
        cmocka_unit_test(slices_of_any_bytes_are_numbered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
