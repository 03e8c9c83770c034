/* SPDX-License-Identifier: Apache-2.0 */
/* Names in legacy files, the folders of ranks, the numbers of layers. */
#include "support/unit.h"

#include <stdlib.h>

#include "src/format/megatron/legacy/save.h"

static const struct megatron_settings gpt = {.num_layers = 4,
                                             .hidden_size = 16,
                                             .ffn_hidden_size = 24,
                                             .num_attention_heads = 4,
                                             .num_query_groups = 2,
                                             .group_query_attention = MEGATRON_YES,
                                             .padded_vocab_size = 32,
                                             .num_experts = 8,
                                             .moe_ffn_hidden_size = 6,
                                             .swiglu = MEGATRON_YES};

static bool parse(const char *name, const struct megatron_settings *s, struct legacy_name *out)
{
    return legacy_names_parse(name, strlen(name), s, out);
}

static void knows_cut_and_shape(void **state)
{
    static const struct {
        const char *name;
        enum legacy_cut cut;
        uint32_t ndim;
        uint64_t shape[2];
    } row[] = {
        {"embedding.word_embeddings.weight", LEGACY_ROWS, 2, {32, 16}},
        {"embedding.position_embeddings.weight", LEGACY_COPY, 2, {0, 16}},
        {"decoder.final_layernorm.bias", LEGACY_COPY, 1, {16, 0}},
        {"decoder.layers.3.self_attention.linear_qkv.weight", LEGACY_ROWS, 2, {32, 16}},
        {"decoder.layers.3.self_attention.linear_qkv.layer_norm_weight", LEGACY_COPY, 1, {16, 0}},
        {"encoder.layers.3.self_attention.linear_proj.weight", LEGACY_COLUMNS, 2, {16, 16}},
        {"decoder.layers.3.self_attention.linear_proj.bias", LEGACY_COPY, 1, {16, 0}},
        {"decoder.layers.3.cross_attention.linear_kv.weight", LEGACY_ROWS, 2, {16, 16}},
        {"decoder.layers.3.mlp.linear_fc1.weight", LEGACY_GATED, 2, {48, 16}},
        {"decoder.layers.3.mlp.linear_fc1.bias", LEGACY_GATED, 1, {48, 0}},
        {"decoder.layers.3.mlp.linear_fc2.weight", LEGACY_COLUMNS, 2, {16, 24}},
        {"decoder.layers.3.mlp.router.weight", LEGACY_COPY, 2, {8, 16}},
        {"decoder.layers.3.mlp.experts.local_experts.7.linear_fc1.weight",
         LEGACY_GATED,
         2,
         {12, 16}},
        {"decoder.layers.3.mlp.experts.linear_fc2.weight7", LEGACY_COLUMNS, 2, {16, 6}},
        {"mtp.layers.3.eh_proj.weight", LEGACY_EITHER, 2, {16, 32}},
        {"mtp.layers.3.transformer_layer.mlp.linear_fc2.weight", LEGACY_COLUMNS, 2, {16, 24}},
        {"mtp.layers.3.mtp_model_layer.mlp.linear_fc2.weight", LEGACY_COLUMNS, 2, {16, 24}},
        {"language_model.encoder.layers.3.attention.query_key_value.bias", LEGACY_ROWS, 1, {32, 0}},
        {"language_model.transformer.layers.3.mlp.dense_h_to_4h.weight", LEGACY_GATED, 2, {48, 16}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct legacy_name n;

        assert_true(parse(row[i].name, &gpt, &n));
        assert_int_equal(n.cut, row[i].cut);
        assert_int_equal(n.ndim, row[i].ndim);
        assert_int_equal(n.shape[0], row[i].shape[0]);
        assert_int_equal(n.shape[1], row[i].shape[1]);
        assert_int_equal(n.stack.n > 0 ? n.layer : 3, 3);
        assert_int_equal(n.mtp, strncmp(row[i].name, "mtp.", 4) == 0);
        assert_int_equal(n.expert_n > 0 ? n.expert : 7, 7);
        assert_true(n.expert_n == 0 || row[i].name[n.expert_at] == '7');
    }
}

static void depends_on_settings(void **state)
{
    struct megatron_settings s = gpt;
    struct legacy_name n;

    (void)state;
    s.swiglu = MEGATRON_NO;
    assert_true(parse("decoder.layers.0.mlp.linear_fc1.weight", &s, &n));
    assert_int_equal(n.cut, LEGACY_ROWS);
    assert_int_equal(n.shape[0], 24);
    s.group_query_attention = MEGATRON_NO;
    assert_true(parse("decoder.layers.0.self_attention.linear_qkv.weight", &s, &n));
    assert_int_equal(n.shape[0], 48);
    s.attention_output_gate = MEGATRON_YES;
    assert_true(parse("decoder.layers.0.self_attention.linear_qkv.weight", &s, &n));
    assert_int_equal(n.shape[0], 64);
    s = (struct megatron_settings){.num_attention_heads = 4, .hidden_size = 16, .kv_channels = 4};
    s.multi_latent_attention = MEGATRON_YES;
    s.q_lora_rank = 6;
    s.kv_lora_rank = 8;
    s.qk_head_dim = 5;
    s.qk_pos_emb_head_dim = 2;
    s.v_head_dim = 3;
    assert_true(parse("decoder.layers.0.self_attention.linear_proj.weight", &s, &n));
    assert_int_equal(n.shape[1], 12);
    assert_true(parse("decoder.layers.0.self_attention.linear_kv_down_proj.weight", &s, &n));
    assert_int_equal(n.shape[0], 10);
    assert_true(parse("decoder.layers.0.self_attention.linear_kv_up_proj.weight", &s, &n));
    assert_int_equal(n.shape[0], 32);
    assert_true(parse("decoder.layers.0.self_attention.linear_q_up_proj.weight", &s, &n));
    assert_int_equal(n.shape[0], 28);
    assert_true(parse("decoder.layers.0.self_attention.q_layernorm.weight", &s, &n));
    assert_int_equal(n.shape[0], 6);
}

static void knows_no_others(void **state)
{
    static const char *const names[] = {
        "",
        "decoder",
        "decoder.layers.",
        "decoder.layers.0",
        "decoder.layers.0.",
        "decoder.layers.x.input_layernorm.weight",
        "decoder.layers.00.input_layernorm.weight",
        "decoder.layers.999999999.input_layernorm.weight",
        "decoder.layers.0.input_layernorm.weight2",
        "decoder.layers.0.input_layernorm.weigh",
        "decoder.layers.0.mixer.in_proj.weight",
        "decoder.layers.0.mlp.experts.local_experts..linear_fc1.weight",
        "decoder.layers.0.mlp.experts.weight3",
        "decoder.layers.0.transformer_layer.input_layernorm.weight",
        "decoder.layers.0.embedding.word_embeddings.weight",
        "embedding.word_embeddings.weight.",
        "input_layernorm.weight",
    };
    struct legacy_name n;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (parse(names[i], &gpt, &n))
            fail_msg("\"%s\" is known", names[i]);
}

/* ---- folders ---- */

static void parses_folders(void **state)
{
    struct legacy_file f;

    (void)state;
    assert_true(legacy_files_parse("mp_rank_01_002_013", &f));
    assert_int_equal(f.n_numbers, 3);
    assert_int_equal(f.number[0], 1);
    assert_int_equal(f.number[1], 2);
    assert_int_equal(f.number[2], 13);
    assert_true(legacy_files_parse("mp_rank_07", &f));
    assert_int_equal(f.n_numbers, 1);
    assert_false(legacy_files_parse("mp_rank_", &f));
    assert_false(legacy_files_parse("mp_rank_00_", &f));
    assert_false(legacy_files_parse("mp_rank_00_000_000_000", &f));
    assert_false(legacy_files_parse("mp_rank_00_model_states", &f));
    assert_false(legacy_files_parse("mp_rank_1234567", &f));
    assert_false(legacy_files_parse("xmp_rank_00", &f));
}

/* The ranks of folders by these settings; what is missing. */
static const char *settle(const struct megatron_settings *s, const char *const *name, uint32_t n,
                          struct legacy_file *out, struct zf_err *err)
{
    struct zf_arena *a = zf_arena_new(1 << 20, err);
    struct legacy_files f = {.file = out, .n = n};
    const char *missing;
    static char text[64];

    assert_non_null(a);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(legacy_files_parse(name[i], &out[i]));
        out[i].path = name[i];
    }
    if (!legacy_files_arrange(&f, s, a, &missing, err)) {
        zf_arena_free(a);
        return "failed";
    }
    text[0] = '\0';
    strncat(text, missing ? missing : "", sizeof text - 1);
    zf_arena_free(a);
    return text;
}

static void two_numbers_mean_what_args_say(void **state)
{
    const char *const names[] = {"mp_rank_00_000", "mp_rank_00_001"};
    struct legacy_file f[2];
    struct zf_err err;

    (void)state;
    assert_string_equal(settle(&(struct megatron_settings){.tensor_model_parallel_size = 1,
                                                           .pipeline_model_parallel_size = 2},
                               names, 2, f, &err),
                        "");
    assert_int_equal(f[1].at.at[ZF_AXIS_PIPELINE], 1);
    assert_string_equal(settle(&(struct megatron_settings){.tensor_model_parallel_size = 1,
                                                           .pipeline_model_parallel_size = 1,
                                                           .expert_model_parallel_size = 2},
                               names, 2, f, &err),
                        "");
    assert_int_equal(f[1].at.at[ZF_AXIS_EXPERT], 1);
    assert_int_equal(f[1].at.at[ZF_AXIS_PIPELINE], 0);
    assert_string_equal(settle(&(struct megatron_settings){.tensor_model_parallel_size = 2,
                                                           .pipeline_model_parallel_size = 2},
                               names, 2, f, &err),
                        "mp_rank_01_000");
    assert_string_equal(
        settle(&(struct megatron_settings){.tensor_model_parallel_size = 2}, names, 2, f, &err),
        "failed");
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "2 numbers");
}

static void experts_without_tensor_parts(void **state)
{
    const struct megatron_settings s = {.tensor_model_parallel_size = 2,
                                        .expert_model_parallel_size = 2,
                                        .expert_tensor_parallel_size = 1};
    const char *const names[] = {"mp_rank_00_000", "mp_rank_01_001", "mp_rank_01_000"};
    struct legacy_file f[3];
    struct zf_err err;

    (void)state;
    assert_string_equal(settle(&s, names, 2, f, &err), "");
    assert_int_equal(f[1].expert_tensor, 0);
    assert_string_equal(settle(&s, names, 1, f, &err), "mp_rank_01_001");
    assert_string_equal(settle(&s, names, 3, f, &err), "failed");
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "belongs to no rank that saves");
}

/* ---- layers ---- */

/* Two stages of two chunks with 1, 2, 0 and 3 layers. */
static void numbers_layers(void **state)
{
    static const uint64_t shape[] = {16};
    static const struct {
        const char *name;
        uint32_t file, chunk, layer;
    } row[] = {
        {"decoder.layers.0.input_layernorm.weight", 0, 0, 0},
        {"mtp.layers.0.enorm.weight", 0, 1, 0},
        {"decoder.layers.0.input_layernorm.weight", 1, 0, 1},
        {"decoder.layers.1.input_layernorm.weight", 1, 0, 2},
        {"decoder.layers.0.input_layernorm.weight", 1, 1, 3},
        {"decoder.layers.1.input_layernorm.weight", 1, 1, 4},
        {"decoder.layers.2.input_layernorm.weight", 1, 1, 5},
        {"mtp.layers.1.enorm.weight", 1, 1, 1},
    };
    enum { N = sizeof row / sizeof *row };
    struct legacy_file file[2] = {{.dir = "a", .path = "a"}, {.dir = "b", .path = "b"}};
    struct legacy_files files = {.file = file, .n = 2, .mesh.size[ZF_AXIS_PIPELINE] = 2};
    struct legacy_part part[N] = {0};
    struct megatron_settings s = {.num_layers = 6};
    struct zf_err err;
    struct legacy_join j = {.a = zf_arena_new(1 << 20, &err),
                            .files = &files,
                            .settings = &s,
                            .part = part,
                            .n_parts = N,
                            .n_chunks = 2};
    const struct legacy_join empty = j;

    (void)state;
    for (size_t i = 0; i < N; i++) {
        part[i] = (struct legacy_part){.name = row[i].name,
                                       .name_n = strlen(row[i].name),
                                       .file = row[i].file,
                                       .chunk = row[i].chunk};
        part[i].weight.ref.ndim = 1;
        part[i].weight.ref.shape = shape;
    }
    file[1].at.at[ZF_AXIS_PIPELINE] = 1;
    assert_ok(legacy_join(&j, &err), &err);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(part[i].layer, row[i].layer);
    assert_non_null(legacy_join_find(&j, "decoder.layers.5.input_layernorm.weight", 39));
    assert_non_null(legacy_join_find(&j, "mtp.layers.1.enorm.weight", 25));
    legacy_join_fini(&j);
    j = empty;
    j.n_parts = N - 2;
    assert_false(legacy_join(&j, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "hold 5 layers of \"decoder.layers.\", but");
    legacy_join_fini(&j);
    j = empty;
    part[1].name = "mtp.layers.2.enorm.weight";
    assert_false(legacy_join(&j, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "layer 0 of \"mtp.layers.\" is in no file");
    legacy_join_fini(&j);
    zf_arena_free(j.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_cut_and_shape),
        cmocka_unit_test(depends_on_settings),
        cmocka_unit_test(knows_no_others),
        cmocka_unit_test(parses_folders),
        cmocka_unit_test(two_numbers_mean_what_args_say),
        cmocka_unit_test(experts_without_tensor_parts),
        cmocka_unit_test(numbers_layers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
