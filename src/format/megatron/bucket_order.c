/* SPDX-License-Identifier: Apache-2.0 */
/* Source: megatron/core/transformer/transformer_layer.py, attention.py, multi_latent_attention.py,
 * multi_token_prediction.py, moe/moe_layer.py, ssm/mamba_mixer.py (0.6 … 0.19); Transformer Engine's
 * LayerNormLinear, which registers layer_norm_weight first. */
#include "bucket_order.h"

#include <string.h>

static const char *const order_tops[] = {"embedding.word_embeddings",
                                         "embedding.position_embeddings",
                                         "embedding.tokentype_embeddings",
                                         "embedding.",
                                         "encoder.layers.",
                                         "encoder.",
                                         "decoder.layers.",
                                         "decoder.",
                                         "mtp.",
                                         "output_layer.",
                                         "lm_head.",
                                         "pooler.",
                                         "binary_head."};

static const char *const order_modules[] = {"enorm.",
                                            "hnorm.",
                                            "eh_proj.",
                                            "input_layernorm.",
                                            "self_attention.linear_qkv.layer_norm_",
                                            "norm.",
                                            "mixer.dt_bias",
                                            "mixer.A_log",
                                            "mixer.D",
                                            "mixer.in_proj.",
                                            "mixer.conv1d.weight",
                                            "mixer.conv1d.bias",
                                            "mixer.norm.",
                                            "mixer.out_proj.",
                                            "self_attention.linear_proj.",
                                            "self_attention.linear_qkv.",
                                            "self_attention.linear_q_proj.",
                                            "self_attention.linear_q_down_proj.",
                                            "self_attention.linear_q_up_proj.",
                                            "self_attention.linear_kv_down_proj.",
                                            "self_attention.linear_kv_up_proj.",
                                            "self_attention.q_layernorm.",
                                            "self_attention.k_layernorm.",
                                            "self_attention.kv_layernorm.",
                                            "pre_cross_attn_layernorm.",
                                            "cross_attention.linear_proj.",
                                            "cross_attention.linear_q.",
                                            "cross_attention.linear_kv.",
                                            "pre_mlp_layernorm.",
                                            "mlp.linear_fc1.layer_norm_",
                                            "mlp.router.",
                                            "mlp.experts.",
                                            "mlp.shared_experts.linear_fc1.",
                                            "mlp.shared_experts.linear_fc2.",
                                            "mlp.shared_experts.",
                                            "mlp.linear_fc1.",
                                            "mlp.linear_fc2.",
                                            "final_layernorm."};

static const char *const order_endings[] = {"layer_norm_weight", "layer_norm_bias", "weight",
                                            "bias"};

/* The index of the first entry of `list` that is a prefix of p[len], or n. */
static uint64_t order_rank(const char *const *list, size_t n, const char *p, size_t len)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = strlen(list[i]);

        if (len >= k && memcmp(p, list[i], k) == 0)
            return i;
    }
    return n;
}
#define ORDER_RANK(list, p, len) order_rank(list, sizeof(list) / sizeof(list[0]), p, len)

uint64_t bucket_order_ending(struct mg_text name)
{
    size_t i = 0;

    while (i < 4 && !mg_text_ends(name, order_endings[i]))
        i++;
    return i;
}

uint64_t bucket_order_top(struct mg_text name)
{
    return ORDER_RANK(order_tops, name.p, name.n);
}

uint64_t bucket_order_module(struct mg_text name, size_t rest, enum bucket_order order)
{
    static const char multi[] = "transformer_layer."; /* in multi-token prediction */
    const char *p = name.p + rest;
    size_t n = name.n - rest;

    if (n > sizeof multi - 1 && memcmp(p, multi, sizeof multi - 1) == 0) {
        p += sizeof multi - 1;
        n -= sizeof multi - 1;
    }
    uint64_t rank = ORDER_RANK(order_modules, p, n);
    if (order == BUCKET_FUSED && rank == 4)
        rank = 15; /* linear_qkv's norm is its first parameter */
    return rank;
}
