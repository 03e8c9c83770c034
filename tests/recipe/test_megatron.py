#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Megatron-core's decoders in all their kinds: which rows of the fused tensors are queries, keys, values, gate and up, by either name
of a norm and of experts.  The orders are those of megatron/core/transformer/attention.py, mlp.py and moe/experts.py, written a second time."""
import itertools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
from golden import main  # noqa: E402 pylint: disable=wrong-import-position
from models import Numbers, Save, needs_a_tied_head  # noqa: E402 pylint: disable=wrong-import-position

HEADS, GROUPS, DIM, WIDTH, FFN, ROWS, LAYERS, EXPERTS = 4, 2, 6, 16, 10, 24, 2, 3
SETTINGS = {"num_layers": LAYERS, "hidden_size": WIDTH, "ffn_hidden_size": FFN, "num_attention_heads": HEADS, "num_query_groups": GROUPS, "kv_channels": DIM,
            "normalization": "RMSNorm", "gated_linear_unit": True, "position_embedding_type": "rope", "rotary_base": 20000, "layernorm_epsilon": 1e-5,
            "add_bias_linear": False, "share_embeddings_and_output_weights": False, "seq_length": 64}
MOE = {"num_moe_experts": EXPERTS, "moe_ffn_hidden_size": 7, "moe_router_topk": 2}
MLA = {"multi_latent_attention": True, "qk_layernorm": True, "rope_type": "rope", "rotary_scaling_factor": 1, "qk_head_dim": 6, "qk_pos_emb_head_dim": 4,
       "v_head_dim": 5, "kv_lora_rank": 8, "q_lora_rank": None}
QWEN = ("mlp.gate", "mlp.experts", ("gate_proj", "up_proj", "down_proj"))
MIXTRAL = ("block_sparse_moe.gate", "block_sparse_moe.experts", ("w1", "w3", "w2"))


EVERY = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "head_dim": DIM, "hidden_act": "silu", "hidden_size": WIDTH, "intermediate_size": FFN,
         "max_position_embeddings": 64, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "num_key_value_heads": GROUPS, "rms_norm_eps": 1e-5, "rope_theta": 20000.0,
         "tie_word_embeddings": False, "torch_dtype": "int32", "vocab_size": ROWS}


def gated(m, name, ffn, front, names=("gate_proj", "up_proj"), kind="weight"):
    m.put(f"{name}.{kind}", [2 * ffn, WIDTH][:2 if kind == "weight" else 1], rows={f"{front}.{n}.{kind}": ffn for n in names})


def attention(m, p, q, biases, turned, norms, dim):
    per = HEADS // GROUPS
    within = [2 * j + two for two in range(2) for j in range(dim // 2)] if turned else range(dim)  # neighbours turned, or halves
    first = {"q": [g * (per + 2) + k for g in range(GROUPS) for k in range(per)], "k": [g * (per + 2) + per for g in range(GROUPS)],
             "v": [g * (per + 2) + per + 1 for g in range(GROUPS)]}
    for kind in ("weight", "bias") if biases else ("weight",):
        name, two = p + "self_attention.linear_qkv." + kind, 2 if kind == "weight" else 1
        m.put(name, [(HEADS + 2 * GROUPS) * dim, WIDTH][:two])
        all_of = m.save[name][2]
        wide = len(all_of) // ((HEADS + 2 * GROUPS) * dim)
        for x, heads in first.items():
            rows = [h * dim + d for h in heads for d in (range(dim) if x == "v" else within)]
            m.want[q + f"self_attn.{x}_proj.{kind}"] = ([len(rows), WIDTH][:two], b"".join(all_of[wide * r:wide * (r + 1)] for r in rows))
        if kind == "weight" or biases == "all":
            m.put(p + "self_attention.linear_proj." + kind, [WIDTH, HEADS * dim] if kind == "weight" else [WIDTH], q + "self_attn.o_proj." + kind)
    for x in "qk" if norms else "":
        m.put(p + f"self_attention.{x}_layernorm.weight", [dim], q + f"self_attn.{x}_norm.weight")


def latent(m, p, q, narrow, plain):
    for ours, shape, theirs in (("linear_proj.weight", [WIDTH, HEADS * 5], "o_proj"), ("linear_kv_down_proj.weight", [12, WIDTH], "kv_a_proj_with_mqa"),
                                ("kv_layernorm.weight" if plain else "linear_kv_up_proj.layer_norm_weight", [8], "kv_a_layernorm"),
                                ("linear_kv_up_proj.weight", [HEADS * 11, 8], "kv_b_proj"),
                                *((("linear_q_down_proj.weight", [9, WIDTH], "q_a_proj"), ("linear_q_up_proj.weight", [HEADS * 10, 9], "q_b_proj"),
                                   ("q_layernorm.weight" if plain else "linear_q_up_proj.layer_norm_weight", [9], "q_a_layernorm"))
                                  if narrow else (("linear_q_proj.weight", [HEADS * 10, WIDTH], "q_proj"),))):
        m.put(p + "self_attention." + ours, shape, q + f"self_attn.{theirs}.weight")


def experts(m, p, q, names, local, shared, bias):
    router, front, (gate, up, down) = names
    m.put(p + "mlp.router.weight", [EXPERTS, WIDTH], q + router + ".weight")
    for e in range(EXPERTS if local != "matrix" else 0):
        at = p + {"": f"mlp.experts.experts.{e}.linear_%s.weight", "local": f"mlp.experts.local_experts.{e}.linear_%s.weight",
                  "grouped": f"mlp.experts.linear_%s.weight{e}"}[local]
        m.put(at % "fc1", [14, WIDTH], rows={q + f"{front}.{e}.{n}.weight": 7 for n in (gate, up)})
        m.put(at % "fc2", [WIDTH, 7], q + f"{front}.{e}.{down}.weight")
    if local == "matrix":  # GroupedMLP: all experts' matrices, transposed, one behind the other
        m.put(p + "mlp.experts.weight1", [WIDTH, EXPERTS * 14])
        m.put(p + "mlp.experts.weight2", [EXPERTS * 7, WIDTH])
        one, two = ([m.save[p + f"mlp.experts.weight{k}"][2][4 * c:4 * c + 4] for c in range(EXPERTS * WIDTH * n)] for k, n in ((1, 14), (2, 7)))
        for e in range(EXPERTS):
            for n, lo in ((gate, 0), (up, 7)):  # one.view(EXPERTS, WIDTH, 14)[e, :, lo:lo + 7].T
                m.want[q + f"{front}.{e}.{n}.weight"] = ([7, WIDTH], b"".join(one[(e * WIDTH + h) * 14 + lo + f] for f in range(7) for h in range(WIDTH)))
            m.want[q + f"{front}.{e}.{down}.weight"] = ([WIDTH, 7], b"".join(two[(e * 7 + f) * WIDTH + h] for h in range(WIDTH) for f in range(7)))
    if shared:
        gated(m, p + "mlp.shared_experts.linear_fc1", 14, q + "mlp." + shared)
        m.put(p + "mlp.shared_experts.linear_fc2.weight", [WIDTH, 14], q + f"mlp.{shared}.down_proj.weight")
    if shared == "shared_expert":
        m.put(p + "mlp.shared_experts.gate_weight", [1, WIDTH], q + "mlp.shared_expert_gate.weight")
    if bias:
        m.put(p + "mlp.router.expert_bias", [EXPERTS], q + "mlp.gate.e_score_correction_bias")


def decoder(plain=False, biases="", turned=False, qk_norm=False, moe=(), names=QWEN, local="", shared="", bias=False, mla="", gate=True, kinds=("weight",), dim=DIM):
    """plain: norms under their own names, as the specification without Transformer Engine has them; biases: "", "qkv", "all";
    moe: the layers with experts; local: their names, "" torch_dist's, "local" and "grouped" legacy files', of a module for each and of one for all,
    "matrix" those of core's own GroupedMLP;
    mla: "", "wide", "narrow"; kinds: what norms have."""
    m = Numbers()
    m.put("embedding.word_embeddings.weight", [ROWS, WIDTH], "model.embed_tokens.weight")
    m.put("output_layer.weight", [ROWS, WIDTH], "lm_head.weight")
    for kind in kinds:
        m.put("decoder.final_layernorm." + kind, [WIDTH], "model.norm." + kind)
    for i in range(LAYERS):
        p, q = f"decoder.layers.{i}.", f"model.layers.{i}."
        for kind in kinds:
            m.put(p + ("input_layernorm." if plain or mla else "self_attention.linear_qkv.layer_norm_") + kind, [WIDTH], q + "input_layernorm." + kind)
            m.put(p + ("pre_mlp_layernorm." if plain or i in moe and local != "local" else "mlp.linear_fc1.layer_norm_") + kind, [WIDTH], q + "post_attention_layernorm." + kind)
        if mla:
            latent(m, p, q, mla == "narrow", plain)
        else:
            attention(m, p, q, biases, turned, qk_norm, dim)
        if i in moe:
            experts(m, p, q, names, local, shared, bias)
            continue
        for kind in ("weight", "bias") if biases == "all" else ("weight",):
            two = 2 if kind == "weight" else 1
            if gate:
                gated(m, p + "mlp.linear_fc1", FFN, q + "mlp", kind=kind)
            else:
                m.put(p + "mlp.linear_fc1." + kind, [FFN, WIDTH][:two], q + "mlp.up_proj." + kind)
            m.put(p + "mlp.linear_fc2." + kind, [WIDTH, FFN] if two == 2 else [WIDTH], q + "mlp.down_proj." + kind)
    return m


def shown(m, settings, architecture, wrong=(), whole=None, **fields):
    """whole: all of config.json that not every decoder has."""
    with Save() as c:
        c.safetensors("save/model.safetensors", m.save)
        c.file("save/transformer_config.json", {**SETTINGS, **settings})
        c.holds(m, architecture, **fields)
        if whole:
            want = {**EVERY, **whole, "architectures": [architecture]}
            assert c.config() == {k: v for k, v in want.items() if v != "none"}, c.config()
        for change, part in wrong:
            c.file("save/transformer_config.json", {**SETTINGS, **settings, **change})
            c.told("hf/ is no", part, at="save")
            assert "model.embed_tokens.weight" not in c.model()


def dense_decoders():
    for plain, turned in itertools.product((False, True), (False, True)):
        of = {"rotary_interleaved": turned}
        shown(decoder(plain, turned=turned), of, "LlamaForCausalLM", head_dim=DIM, rope_theta=20000.0, num_key_value_heads=GROUPS, attention_bias=False)
        shown(decoder(plain, "all", turned), {**of, "add_bias_linear": True}, "LlamaForCausalLM", attention_bias=True, mlp_bias=True)
    shown(decoder(), {"window_size": [5, 0]}, "MistralForCausalLM", (({"window_size": [-1, 0]}, "without an end"),), sliding_window=6)
    shown(decoder(qk_norm=True), {"qk_layernorm": True}, "Qwen3ForCausalLM", (({"rotary_interleaved": True}, "interleaved"),), head_dim=DIM)


def nemotron():
    for plain, biases in itertools.product((False, True), ("", "all")):
        settings = {"normalization": "LayerNorm", "gated_linear_unit": False, "layernorm_zero_centered_gamma": True, "rotary_percent": 0.5,
                    "add_bias_linear": biases == "all"}
        # By its trainer's switch, or by the function of NeMo and Megatron-Bridge.
        for how in ({"squared_relu": True}, {"activation_func": {"_target_": "megatron.core.activations.squared_relu"}}):
            shown(decoder(plain, biases, gate=False, kinds=("weight", "bias")), {**settings, **how}, "NemotronForCausalLM", (({"ffn_hidden_size": 12}, "10 and 12"), ({"add_qkv_bias": True, "add_bias_linear": False}, "biases everywhere") if not biases else ({"ffn_hidden_size": 8}, "10 and 8")),
                  hidden_act="relu2", partial_rotary_factor=0.5, attention_bias=biases == "all", mlp_bias=biases == "all")


SLICES = (({"moe_ffn_hidden_size": 6}, "linear_fc1"), ({"moe_ffn_hidden_size": 8}, "[8:16] are outside"), ({"moe_ffn_hidden_size": 14}, "[14:28] are outside"))
MATRICES = tuple(({"moe_ffn_hidden_size": n}, f"by the settings the axis has {EXPERTS * WIDTH * 2 * n}, but the tensor has {EXPERTS * WIDTH * 14}") for n in (6, 8, 14))


def experts_of_all_names():
    others = (({"moe_router_score_function": "sigmoid"}, "moe_router_score_function"), ({"moe_router_topk_scaling_factor": 2.0}, "moe_router_topk_scaling_factor"),
              ({"moe_router_enable_expert_bias": True}, "moe_router_enable_expert_bias"), ({"squared_relu": True}, "squared_relu"),
              ({"moe_router_num_groups": 2}, "moe_router_num_groups"))
    for plain, local in itertools.product((False, True), ("", "local", "grouped", "matrix")):
        wrong = (*(MATRICES if local == "matrix" else SLICES), *others)
        shown(decoder(plain, moe=(0, 1), names=MIXTRAL, local=local), MOE, "MixtralForCausalLM",
              (*wrong, ({"num_moe_experts": 2}, "expert"), ({"add_bias_linear": True}, "experts with biases"), ({"moe_router_pre_softmax": True}, "moe_router_pre_softmax")),
              num_local_experts=EXPERTS, num_experts_per_tok=2, intermediate_size=7, sliding_window=None)
        shown(decoder(plain, moe=(1,), local=local, qk_norm=True), {**MOE, "qk_layernorm": True}, "Qwen3MoeForCausalLM", wrong, num_experts=EXPERTS,
              moe_intermediate_size=7, mlp_only_layers=[0], norm_topk_prob=True, decoder_sparse_step=1)
    settings = {**MOE, "kv_channels": DIM, "add_qkv_bias": True, "moe_shared_expert_gate": True, "moe_shared_expert_intermediate_size": 14}
    shown(decoder(biases="qkv", moe=(0, 1), shared="shared_expert"), settings, "Qwen2MoeForCausalLM",
          (*SLICES, *others, *(({"moe_shared_expert_intermediate_size": n}, part) for n, part in ((12, "shared_experts.linear_fc1"), (16, "[16:32] are outside"), (28, "[28:56] are outside")))),
          shared_expert_intermediate_size=14, norm_topk_prob=True)


def latent_attention():
    for plain, mla in itertools.product((False, True), ("wide", "narrow")):
        names = {"shared": "shared_experts", "mla": mla, "local": "grouped" if plain else "" if mla == "wide" else "matrix"}
        settings = {**MLA, **MOE, "q_lora_rank": 9 if mla == "narrow" else None, "moe_shared_expert_intermediate_size": 14}
        wrong = (MATRICES[2] if names["local"] == "matrix" else SLICES[2], ({"moe_shared_expert_intermediate_size": 7}, "shared_experts.linear_fc1"), ({"q_lora_rank": None if mla == "narrow" else 9}, "linear_q"),
                 ({"kv_lora_rank": 9, "qk_pos_emb_head_dim": 3}, "rows of linear_q"), ({"add_qkv_bias": True}, "with biases"))
        fields = {"kv_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5, "n_shared_experts": 2, "first_k_dense_replace": 1, "n_routed_experts": EXPERTS}
        shown(decoder(plain, moe=(1,), **names), {**settings, "moe_router_pre_softmax": True}, "DeepseekV2ForCausalLM", wrong, **fields)
        shown(decoder(plain, moe=(1,), bias=True, **names), {**settings, "moe_router_score_function": "sigmoid"}, "DeepseekV3ForCausalLM", wrong, **fields)
    with Save() as c:
        c.safetensors("save/model.safetensors", decoder(moe=(1,), names=MIXTRAL).save)
        c.file("save/transformer_config.json", {**SETTINGS, **MOE})
        c.told("hf/ is not the model MixtralForCausalLM", "every layer of Mixtral has experts", at="save")
        c.safetensors("save/model.safetensors", decoder(moe=(0,), mla="wide", bias=True).save)
        c.file("save/transformer_config.json", {**SETTINGS, **MLA, **MOE, "moe_router_score_function": "sigmoid"})
        c.told("hf/ is not the model DeepseekV3ForCausalLM", "layers without experts behind layers with them", at="save")
    shown(decoder(moe=(1,), mla="wide", local="local", shared="shared_experts"), {**MLA, **MOE, "moe_shared_expert_intermediate_size": 14, "moe_router_pre_softmax": True},
          "DeepseekV2ForCausalLM", first_k_dense_replace=1)
    # All layers without experts.
    shown(decoder(mla="wide"), {**MLA, "moe_router_topk": 2}, "DeepseekV2ForCausalLM", n_routed_experts=0, first_k_dense_replace=LAYERS)
    uneven = decoder(moe=(1,), mla="wide", bias=True, shared="shared_experts")
    uneven.put("decoder.layers.1.mlp.shared_experts.linear_fc1.weight", [20, WIDTH])
    uneven.put("decoder.layers.1.mlp.shared_experts.linear_fc2.weight", [WIDTH, 10])
    with Save() as c:
        c.safetensors("save/model.safetensors", uneven.save)
        c.file("save/transformer_config.json", {**SETTINGS, **MLA, **MOE, "moe_router_score_function": "sigmoid", "moe_shared_expert_intermediate_size": 10})
        c.told("hf/ is not the model DeepseekV3ForCausalLM", "a shared expert that is no multiple of an expert", at="save")
    # transformers refuses null.
    shown(decoder(moe=(0, 1), mla="wide", bias=True), {**MLA, **MOE, "moe_router_score_function": "sigmoid"}, "DeepseekV3ForCausalLM", n_shared_experts=0)


def a_config_json_that_does_not_tie_the_head_is_refused():
    nemotron_like = {"normalization": "LayerNorm", "gated_linear_unit": False, "layernorm_zero_centered_gamma": True, "squared_relu": True}
    for m, settings, architecture, kind in ((decoder(), {}, "LlamaForCausalLM", "llama"),
                                            (decoder(gate=False, kinds=("weight", "bias")), nemotron_like, "NemotronForCausalLM", "nemotron")):
        m.save.pop("output_layer.weight")
        m.want.pop("lm_head.weight")
        needs_a_tied_head(m, "transformer_config.json", {**SETTINGS, **settings, "share_embeddings_and_output_weights": True}, architecture, kind)


def a_vocabulary_is_cut_by_a_config_json_from_outside():
    plain = {"normalization": "LayerNorm", "gated_linear_unit": False, "layernorm_zero_centered_gamma": True, "squared_relu": True}
    for m, settings, kind, architecture in ((decoder(), {}, "llama", "LlamaForCausalLM"),
                                            (decoder(gate=False, kinds=("weight", "bias")), plain, "nemotron", "NemotronForCausalLM")):
        for n in ("model.embed_tokens.weight", "lm_head.weight"):
            m.want[n] = ([20, WIDTH], m.want[n][1][:4 * 20 * WIDTH])
        with Save() as c:
            c.safetensors("save/model.safetensors", m.save)
            c.file("save/transformer_config.json", {**SETTINGS, **settings})
            c.file("side/config.json", {"model_type": kind, "architectures": [architecture], "vocab_size": 20})
            c.holds(m, architecture, "-o", "side=" + os.path.join(c.dir, "side"), vocab_size=20)


REFUSED = {"apply_residual_connection_post_layernorm": True, "qk_l2_norm": True, "attention_output_gate": True, "softmax_type": "learnable", "activation_func_clamp_value": 7.0,
           "glu_linear_offset": 1.0, "quick_geglu": True, "moe_mlp_glu_interleave_size": 32, "moe_latent_size": 8, "no_rope_freq": 4, "linear_attention_freq": 4,
           "experimental_attention_variant": "dsa", "hybrid_layer_pattern": "M*", "hybrid_override_pattern": "M*", "heterogeneous_layers_config_path": "x.json",
           "window_attn_skip_freq": 2, "apply_layernorm_1p": True, "layernorm_zero_centered_gamma": True, "rotary_percent": 0.5, "softmax_scale": 0.5}


def config_json_of_every_class_has_nothing_else():
    """As transformers' configuration_*.py names the fields; what is not there has transformers' default."""
    routed = {"num_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": 7, "norm_topk_prob": True, "decoder_sparse_step": 1}
    plain = {"normalization": "LayerNorm", "gated_linear_unit": False, "layernorm_zero_centered_gamma": True, "squared_relu": True, "rotary_percent": 0.5}
    shown(decoder(), {}, "LlamaForCausalLM", whole={"model_type": "llama", "attention_bias": False, "mlp_bias": False})
    shown(decoder(), {"window_size": [5, 0]}, "MistralForCausalLM", whole={"model_type": "mistral", "sliding_window": 6})
    shown(decoder(biases="qkv", dim=4), {"add_qkv_bias": True, "kv_channels": 4}, "Qwen2ForCausalLM",
          (({"kv_channels": 6}, "columns of linear_proj"), ({"add_bias_linear": True}, "linear_fc1.bias")),
          whole={"model_type": "qwen2", "head_dim": 4, "use_sliding_window": False})
    with Save() as c:
        c.safetensors("save/model.safetensors", decoder(biases="qkv").save)
        c.file("save/transformer_config.json", {**SETTINGS, "add_qkv_bias": True})
        c.told("hf/ is not the model Qwen2ForCausalLM: Qwen2ForCausalLM has heads of hidden_size / num_attention_heads", at="save")
    shown(decoder(qk_norm=True), {"qk_layernorm": True}, "Qwen3ForCausalLM", whole={"model_type": "qwen3", "attention_bias": False, "use_sliding_window": False})
    shown(decoder(moe=(0, 1), names=MIXTRAL), MOE, "MixtralForCausalLM",
          whole={"model_type": "mixtral", "intermediate_size": 7, "num_local_experts": EXPERTS, "num_experts_per_tok": 2, "sliding_window": None})
    moe = {"model_type": "qwen3_moe", "attention_bias": False, "use_sliding_window": False, "mlp_only_layers": [0], **routed}
    shown(decoder(moe=(1,), qk_norm=True), {**MOE, "qk_layernorm": True}, "Qwen3MoeForCausalLM", whole=moe)
    shown(decoder(moe=(0, 1), qk_norm=True), {**MOE, "qk_layernorm": True, "ffn_hidden_size": None}, "Qwen3MoeForCausalLM",
          whole={**moe, "mlp_only_layers": [], "intermediate_size": "none"})
    settings = {**MOE, "kv_channels": 6, "add_qkv_bias": True, "moe_shared_expert_gate": True, "moe_shared_expert_intermediate_size": 14}
    shown(decoder(biases="qkv", moe=(0, 1), shared="shared_expert"), settings, "Qwen2MoeForCausalLM",
          whole={"model_type": "qwen2_moe", "shared_expert_intermediate_size": 14, "mlp_only_layers": [], "use_sliding_window": False, **routed})
    settings = {**MLA, **MOE, "moe_shared_expert_intermediate_size": 14}
    latent_too = {"num_key_value_heads": HEADS, "head_dim": "none", "q_lora_rank": None, "kv_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5,
                  "moe_intermediate_size": 7, "n_routed_experts": EXPERTS, "n_shared_experts": 2, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 1.0,
                  "attention_bias": False}
    shown(decoder(moe=(1,), mla="wide", shared="shared_experts"), {**settings, "moe_router_pre_softmax": True}, "DeepseekV2ForCausalLM",
          whole={"model_type": "deepseek_v2", "topk_method": "greedy", "norm_topk_prob": False, **latent_too})
    shown(decoder(moe=(1,), mla="wide", shared="shared_experts", bias=True), {**settings, "moe_router_score_function": "sigmoid"}, "DeepseekV3ForCausalLM",
          whole={"model_type": "deepseek_v3", "topk_method": "noaux_tc", "norm_topk_prob": True, "scoring_func": "sigmoid", "rope_interleave": True, "n_group": 1, "topk_group": 1,
                 **latent_too})
    shown(decoder(gate=False, kinds=("weight", "bias")), plain, "NemotronForCausalLM",
          whole={"model_type": "nemotron", "hidden_act": "relu2", "norm_eps": 1e-5, "rms_norm_eps": "none", "partial_rotary_factor": 0.5, "attention_bias": False, "mlp_bias": False,
                 "pad_token_id": "none"})


def a_model_of_another_kind_fits_none():
    """What is no Llama in one respect: zerofs recipes says no, and not that a setting is wrong."""
    kinds = ({}, {"qk_layernorm": True}, {"add_qkv_bias": True}, {"window_size": [5, 0]}, MOE, {**MOE, "qk_layernorm": True},
             {**MOE, "add_qkv_bias": True, "moe_shared_expert_gate": True, "moe_shared_expert_intermediate_size": 14})
    with Save() as c:
        c.safetensors("save/model.safetensors", decoder().save)
        for kind in kinds:
            for other in ({"normalization": "LayerNorm"}, {"gated_linear_unit": False}, {"position_embedding_type": "none"}):
                c.file("save/transformer_config.json", {**SETTINGS, **kind, **other})
                r = c.run("recipes", None, at="save").stdout.decode()
                assert all(line.startswith(("no ", " ")) for line in r.splitlines()), (kind, other, r)


def what_no_order_can_express_is_refused_by_name():
    with Save() as c:
        c.safetensors("save/model.safetensors", decoder().save)
        for key, value in REFUSED.items():
            c.file("save/transformer_config.json", {**SETTINGS, key: value})
            c.told("hf/ is not the model LlamaForCausalLM", "apply_layernorm_1p" if "centered" in key else "hybrid_layer_pattern" if "hybrid" in key else key, at="save")
        # Defaults of what the model has not, which are in every save, are no reason.
        c.file("save/transformer_config.json", {**SETTINGS, "multi_latent_attention": False, "kv_lora_rank": 32, "qk_head_dim": 128, "moe_router_topk": 2, "num_experts": None,
                                                "softmax_type": "vanilla", "glu_linear_offset": 0.0, "rotary_percent": 1.0, "moe_layer_freq": 1, "add_position_embedding": True})
        c.told("hf/ is the model LlamaForCausalLM", at="save")


def norms_of_latent_attention_with_another_epsilon_are_told():
    for eps, told in ((1e-5, True), (1e-6, False)):
        with Save() as c:
            c.safetensors("save/model.safetensors", decoder(moe=(1,), mla="wide", bias=True).save)
            c.file("save/transformer_config.json", {**SETTINGS, **MLA, **MOE, "moe_router_score_function": "sigmoid", "layernorm_epsilon": eps})
            assert (b"1e-6 for them" in c.run("info", None, "-v", at="save").stdout) == told


main([config_json_of_every_class_has_nothing_else, a_model_of_another_kind_fits_none, dense_decoders, a_vocabulary_is_cut_by_a_config_json_from_outside, a_config_json_that_does_not_tie_the_head_is_refused, nemotron, experts_of_all_names, latent_attention, what_no_order_can_express_is_refused_by_name, norms_of_latent_attention_with_another_epsilon_are_told])
