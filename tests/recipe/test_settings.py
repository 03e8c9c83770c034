#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the settings of a checkpoint say, where they are looked for, and which of them no class of transformers can follow."""
import json
import os
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format", d) for d in ("", "deepspeed")]
import makeds  # noqa: E402 pylint: disable=wrong-import-position
from golden import main  # noqa: E402 pylint: disable=wrong-import-position
from megatron import DIM, FFN, GROUPS, HEADS, LAYERS, ROWS, SETTINGS, WIDTH, Llama, numbered, olmo_core, tensors  # noqa: E402 pylint: disable=wrong-import-position


class Model(Llama):
    def put(self, t, settings, where="transformer_config.json"):
        self.safetensors("save/model.safetensors", t)
        self.file("save/" + where, settings)
        return self


def judged(t, settings, cases, where="transformer_config.json"):
    """cases: changed settings, and the part of the refusal, or the fields of config.json."""
    for change, want in cases:
        with Model() as c:
            c.put(t, {**settings, **change}, where)
            if isinstance(want, str):
                c.is_no_model(want)
            else:
                config = c.config()
                assert {k: config.get(k) for k in want} == want, (change, config)


def rotary_embeddings_of_megatron():
    judged(tensors(), SETTINGS, (
        ({}, {"rope_theta": 10000.0, "rope_scaling": None}), ({"rotary_base": -1}, "rotary_base"), ({"rotary_base": 0}, "rotary_base"),
        ({"position_embedding_type": "yarn"}, "YaRN"), ({"position_embedding_type": "mrope"}, "mrope"), ({"layernorm_epsilon": -1e-5}, "epsilon"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling"), ({"rope_scaling": True}, {"rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}),
        ({"rope_scaling": "llama3"}, "neither true nor false"), ({"use_rope_scaling": False, "rope_scaling": {"factor": 2.0}}, "rope_scaling"),
        ({"use_rope_scaling": True, "seq_len_interpolation_factor": 2}, "two ways"), ({"seq_len_interpolation_factor": 2}, {"rope_scaling": {
            "rope_type": "linear", "factor": 2.0}})))


def settings_of_a_wrong_type():
    for value in ("false", [1], {"a": 1}, 0.5, -1):
        with Model() as c:
            c.put(tensors(), {**SETTINGS, "gated_linear_unit": value})
            c.told("hf/ is not converted by a recipe", "does not work with true and " + json.dumps(value, separators=(",", ":")), at="save")
            assert "model.norm.weight" not in c.names()
    truth = '"and" does not work with '
    judged(tensors(), SETTINGS, (({"add_bias_linear": "False"}, truth + '"False" and true'), ({"add_bias_linear": []}, truth + "[] and true"),
                                 ({"share_embeddings_and_output_weights": "x"}, truth + '"x" and true'), ({"use_rope_scaling": 2}, "neither true nor false"),
                                 ({"seq_length": "64"}, "longest"), ({"seq_length": True}, "longest"), ({"max_position_embeddings": -1}, "longest"),
                                 ({"kv_channels": "6"}, "head_dim"), ({"rotary_interleaved": "no"}, '"not" does not work with "no"')))
    with Model() as c:  # 0 is false, and what nothing says is left to the class
        config = c.put(tensors(), {**SETTINGS, "add_bias_linear": 0, "share_embeddings_and_output_weights": 0, "seq_length": None}).config()
        assert config["attention_bias"] is False and config["tie_word_embeddings"] is False and "max_position_embeddings" not in config, config


def settings_that_fit_no_recipe_are_said():
    with Model() as c:
        c.put(tensors(), {**SETTINGS, "normalization": "LayerNorm"})
        c.told("none of its recipes fits", "See why: zerofs recipes", at="save")
        notes = json.loads(c.run("info", None, "--json", at="save").stdout)["notes"]
        assert any("none of its recipes fits" in n for n in notes), notes
    with Model() as c:  # a model of something else is no news
        c.safetensors("save/model.safetensors", {"a": numbered([3], 0)})
        assert "recipe" not in c.run("info", None, at="save").stdout.decode()


def experts(layers):
    t = {k: v for k, v in tensors().items() if ".mlp." not in k}
    for i in range(LAYERS):
        p = f"decoder.layers.{i}."
        if i in layers:
            t.update({p + "pre_mlp_layernorm.weight": numbered([WIDTH], 8), p + "mlp.router.weight": numbered([4, WIDTH], 9)})
            for e in range(4):
                t.update({p + f"mlp.experts.experts.{e}.linear_fc1.weight": numbered([2 * FFN, WIDTH], e),
                          p + f"mlp.experts.experts.{e}.linear_fc2.weight": numbered([WIDTH, FFN], e)})
        else:
            t.update({k: v for k, v in tensors().items() if k.startswith(p + "mlp.")})
        t.update({p + f"self_attention.{q}_layernorm.weight": numbered([DIM], 0) for q in "qk"})
    return t


def layers_with_experts_are_those_of_moe_layer_freq():
    plain = {**SETTINGS, "num_moe_experts": 4, "moe_ffn_hidden_size": FFN, "moe_router_topk": 2, "qk_layernorm": True}
    wrong = "layers with experts by moe_layer_freq"
    judged(experts([0, 1]), plain, (({"ffn_hidden_size": "x"}, "ffn"), ({"ffn_hidden_size": -1}, "ffn"), ({"ffn_hidden_size": None}, {"intermediate_size": None})))
    judged(experts([0, 1]), plain, (({}, {"mlp_only_layers": []}), ({"moe_layer_freq": 1}, {"mlp_only_layers": []}), ({"moe_layer_freq": 2}, wrong),
                                    ({"moe_layer_freq": [1, 1]}, {"mlp_only_layers": []}), ({"moe_layer_freq": [0, 1]}, wrong)))
    judged(experts([0]), plain, (({"moe_layer_freq": 2}, {"mlp_only_layers": [1]}), ({"moe_layer_freq": [1, 0]}, {"mlp_only_layers": [1]}),
                                 ({"moe_layer_freq": 1}, "[true,true] and [true,false]"), ({"moe_layer_freq": [0, 1]}, wrong), ({}, {"mlp_only_layers": [1]})))


def latent(bias):
    """DeepSeek by the names of Megatron-core, the first layer without experts."""
    t = {k: v for k, v in experts([1]).items() if "self_attention" not in k}
    for i in range(LAYERS):
        p = f"decoder.layers.{i}."
        t.update({p + "input_layernorm.weight": numbered([WIDTH], 1), p + "self_attention.linear_proj.weight": numbered([WIDTH, HEADS * 5], 2),
                  p + "self_attention.linear_q_proj.weight": numbered([HEADS * 10, WIDTH], 3), p + "self_attention.linear_kv_down_proj.weight": numbered([12, WIDTH], 4),
                  p + "self_attention.linear_kv_up_proj.layer_norm_weight": numbered([8], 5), p + "self_attention.linear_kv_up_proj.weight": numbered([HEADS * 11, 8], 6)})
    if bias:
        t["decoder.layers.1.mlp.router.expert_bias"] = numbered([4], 7)
    return t


MLA = {**SETTINGS, "multi_latent_attention": True, "qk_layernorm": True, "rope_type": "rope", "rotary_scaling_factor": 1, "qk_head_dim": 6, "qk_pos_emb_head_dim": 4,
       "v_head_dim": 5, "kv_lora_rank": 8, "q_lora_rank": None, "num_moe_experts": 4, "moe_ffn_hidden_size": FFN, "moe_router_topk": 2}
LATENT = (({"qk_layernorm": False}, "qk_layernorm"), ({"rope_type": "yarn"}, "rope_type"), ({"rotary_scaling_factor": 40}, "rotary_scaling_factor"),
          ({"add_bias_linear": True}, "linear_fc1.bias"), ({"qk_head_dim": 8}, "linear_kv_up_proj"), ({"kv_lora_rank": 6}, "linear_kv_down_proj"), ({"v_head_dim": 4}, "linear_proj"),
          ({"moe_layer_freq": [1, 0]}, "moe_layer_freq"), ({"moe_shared_expert_intermediate_size": 15}, "shared_experts.linear_fc1"))


def deepseek_v2_of_megatron():
    judged(latent(False), {**MLA, "moe_router_pre_softmax": True}, (
        ({}, {"architectures": ["DeepseekV2ForCausalLM"], "first_k_dense_replace": 1, "norm_topk_prob": False}), ({"moe_router_pre_softmax": False}, "moe_router_pre_softmax"),
        ({"moe_router_num_groups": 2}, "moe_router_num_groups"), ({"moe_router_enable_expert_bias": True}, "moe_router_enable_expert_bias"), *LATENT))


def deepseek_v3_of_megatron():
    judged(latent(True), {**MLA, "moe_router_score_function": "sigmoid", "moe_router_enable_expert_bias": True}, (
        ({}, {"architectures": ["DeepseekV3ForCausalLM"], "norm_topk_prob": True, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0}),
        ({"moe_router_topk": 1}, {"norm_topk_prob": False}), ({"moe_router_enable_expert_bias": False}, "moe_router_enable_expert_bias"), ({"moe_router_topk_scaling_factor": 2.5}, {"routed_scaling_factor": 2.5}),
        ({"moe_router_num_groups": 2, "moe_router_group_topk": 1}, {"n_group": 2, "topk_group": 1}),
        ({"moe_router_num_groups": 4, "moe_router_group_topk": 2}, "groups of experts weighed"),
        ({"moe_router_num_groups": 2, "moe_router_group_topk": 1, "moe_router_topk": 3}, "groups of experts weighed"), *LATENT))


def biased(rope, groups=None):
    """GPT-2 or Nemotron by the names of Megatron-core."""
    t = {"embedding.word_embeddings.weight": numbered([ROWS, WIDTH], 0), "output_layer.weight": numbered([ROWS, WIDTH], 9000)}
    if not rope:
        t["embedding.position_embeddings.weight"] = numbered([20, WIDTH], 1)
    groups = groups or (GROUPS if rope else HEADS)
    shapes = {"self_attention.linear_qkv.weight": [(HEADS + 2 * groups) * 4, WIDTH], "self_attention.linear_proj.weight": [WIDTH, WIDTH],
              "mlp.linear_fc1.weight": [FFN, WIDTH], "mlp.linear_fc2.weight": [WIDTH, FFN]}
    norms = ["self_attention.linear_qkv.layer_norm_", "mlp.linear_fc1.layer_norm_"]
    for i in range(LAYERS):
        p = f"decoder.layers.{i}."
        t.update({p + n: numbered(s, i) for n, s in shapes.items()})
        t.update({p + n[:-6] + "bias": numbered(s[:1], i) for n, s in shapes.items()})
        t.update({p + n + w: numbered([WIDTH], i) for n in norms for w in ("weight", "bias")})
    t.update({f"decoder.final_layernorm.{w}": numbered([WIDTH], 3) for w in ("weight", "bias")})
    return t


def gpt2_of_megatron():
    settings = {**SETTINGS, "num_query_groups": HEADS, "kv_channels": 4, "normalization": "LayerNorm", "gated_linear_unit": False, "add_bias_linear": True,
                "position_embedding_type": "learned_absolute"}
    judged(biased(False), settings, (
        ({}, {"architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "n_positions": 20, "layer_norm_epsilon": 1e-5}),
        ({"bias_gelu_fusion": False}, {"activation_function": "gelu"}), ({"bias_gelu_fusion": False, "openai_gelu": True}, {"activation_function": "gelu_new"}),
        ({"bias_activation_fusion": False}, {"activation_function": "gelu"}), ({"bias_activation_fusion": True}, {"activation_function": "gelu_new"}),
        ({"activation_func": {"_target_": "torch.nn.functional.gelu"}}, {"activation_function": "gelu_new"}), ({"activation_func": {"_target_": "torch.nn.functional.relu"}}, "activation_func"),
        ({"activation_func": {"_target_": "megatron.core.activations.fast_gelu"}, "bias_activation_fusion": False}, {"activation_function": "gelu_new"}),
        ({"layernorm_zero_centered_gamma": True}, "only re-orders"), ({"squared_relu": True}, "squared_relu"), ({"qk_layernorm": True}, "norms of queries"),
        ({"num_query_groups": 2}, "linear_qkv"), ({"layernorm_epsilon": None}, "epsilon"), ({"layernorm_epsilon": -1}, "epsilon"), ({"layernorm_epsilon": "x"}, '"x"'), ({"ffn_hidden_size": 12}, "10 and 12"), ({"hidden_size": 8}, "hidden_size")))


def gpt2_with_groups_of_queries_is_refused():
    settings = {**SETTINGS, "kv_channels": 4, "normalization": "LayerNorm", "gated_linear_unit": False, "add_bias_linear": True, "position_embedding_type": "learned_absolute"}
    judged(biased(False, GROUPS), settings, (({}, "GPT-2 has no groups of queries"),))


def the_vocabulary_of_gpt2_is_cut_by_a_config_json_from_outside():
    settings = {**SETTINGS, "num_query_groups": HEADS, "kv_channels": 4, "normalization": "LayerNorm", "gated_linear_unit": False, "add_bias_linear": True,
                "position_embedding_type": "learned_absolute"}
    with Model() as c:
        c.put(biased(False), settings)
        c.file("side/config.json", {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 30})
        names = c.names("-o", "side=" + os.path.join(c.dir, "side"))
        assert names["transformer.wte.weight"]["shape"] == [30, WIDTH] and names["lm_head.weight"]["shape"] == [30, WIDTH]


def nemotron_of_megatron():
    settings = {**SETTINGS, "kv_channels": 4, "normalization": "LayerNorm", "gated_linear_unit": False, "add_bias_linear": True, "squared_relu": True,
                "layernorm_zero_centered_gamma": True, "rotary_percent": 0.5}
    judged(biased(True), settings, (
        ({}, {"architectures": ["NemotronForCausalLM"], "partial_rotary_factor": 0.5, "norm_eps": 1e-5, "hidden_act": "relu2"}),
        ({"use_rope_scaling": True}, "no scaled rotary embedding"), ({"rope_scaling": {"factor": 2.0}}, "no scaled rotary embedding"),
        ({"seq_len_interpolation_factor": 2}, "no scaled rotary embedding"), ({"rotary_base": -5}, "rotary_base"), ({"rotary_interleaved": True}, "interleaved"),
        ({"layernorm_zero_centered_gamma": False}, "zero-centred"), ({"qk_layernorm": True}, "norms of queries"), ({"rotary_percent": 1.5}, "rotary_percent"),
        ({"rotary_percent": 0}, "rotary_percent"), ({"rotary_percent": "x"}, '"x"'), ({"layernorm_epsilon": -1}, "epsilon"), ({"rotary_base": None}, "rotary_base"), ({"position_embedding_type": "yarn"}, "YaRN")))


def yaml(settings, front):
    text = json.dumps(settings)
    return (f"{front}: {text}\n" if front else text).encode()


def settings_in_yaml_of_nemo_and_bridge():
    for where, front in (("run_config.yaml", "model"), ("model_config.yaml", "")):
        with Model() as c:
            c.put(tensors(), yaml({"x": 1}, front), where)
            assert "model.norm.weight" not in c.names()
            c.put(tensors(), yaml(SETTINGS, front), where)
            assert c.config()["num_key_value_heads"] == GROUPS
            record = json.loads(c.run("cat", "hf/recipe.json", at="save").stdout)
            assert record["settings"] == "state/" + os.path.basename(where), record
            c.put(tensors(), yaml({**SETTINGS, "layernorm_epsilon": 0.1 + 0.2}, front), where)
            assert c.config()["rms_norm_eps"] == 0.1 + 0.2  # to the last digit
            c.put(tensors(), yaml({**SETTINGS, "rope_scaling": {"factor": 2.0}}, front), where).is_no_model("rope_scaling")
    moe = {**SETTINGS, "num_moe_experts": 4, "moe_ffn_hidden_size": FFN, "moe_router_topk": 2, "qk_layernorm": True}
    head = {"_target_": "nemo.collections.llm.gpt.model.llama.LlamaModel", "optim": {"lr": 0.1}}
    llama31 = {"scale_factor": 32, "low_freq_factor": 2, "high_freq_factor": 8, "old_context_len": 4096}
    gelu, silu = ({"_target_": "torch.nn.functional." + f, "_call_": False} for f in ("gelu", "silu"))
    for where, front in (("run_config.yaml", "model"), ("context/model.yaml", "config")):
        for t, settings, want in (
                (experts([0]), {**moe, "moe_layer_freq": [1, 0]}, {"mlp_only_layers": [1]}),
                (experts([0]), {**moe, "moe_layer_freq": [0, 1]}, "[false,true] and [true,false]"),
                (tensors(), {**SETTINGS, "window_size": [7, 0]}, {"architectures": ["MistralForCausalLM"], "sliding_window": 8}),
                (tensors(), {**SETTINGS, "activation_func": silu}, {"architectures": ["LlamaForCausalLM"]}),
                (tensors(), {**SETTINGS, "activation_func": gelu}, "gelu"),
                *((tensors(), {**SETTINGS, "activation_func": {"_target_": other, "_call_": False}}, "activation_func") for other in (
                    "torch.nn.functional.relu", "nemo.collections.llm.fn.activation.openai_gelu", "megatron.core.activations.fast_gelu")),
                (tensors(), {**SETTINGS, **llama31}, {"rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 2.0, "high_freq_factor": 8.0,
                                                                       "original_max_position_embeddings": 4096}}),
                (tensors(), {**SETTINGS, "scale_factor": 8}, {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                                               "original_max_position_embeddings": 8192}}),
                (tensors(), {**SETTINGS, "rope_scaling": True, "rope_scaling_factor": 32.0, "low_freq_factor": 2, "old_context_len": 4096}, {"rope_scaling": {
                    "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}),
                (tensors(), {**SETTINGS, "rope_scaling": True, **llama31}, "scaled in two ways"),
                *((tensors(), {**SETTINGS, "_target_": "nemo.collections.llm.gpt.model.llama." + of}, "nothing says by how much") for of in (
                    "Llama31Config", "Llama31Config8B", "Llama31Config70B", "Llama31Config405B", "Llama32Config1B", "Llama32Config3B")),
                (tensors(), {**SETTINGS, "_target_": "nemo.collections.llm.gpt.model.llama.Llama31Config8B", **llama31}, {"architectures": ["LlamaForCausalLM"]}),
                *((tensors(), {**SETTINGS, k: v}, k) for k, v in (("nope_layer_interval", 4), ("attention_chunk_size", 8192), ("query_pre_attn_scalar", 256), ("use_mup", True),
                                                                  ("heterogeneous_block_specs", True), ("is_hybrid_model", True))),
                *((tensors(), {**SETTINGS, k: 30.0}, "softcapping") for k in ("attn_logit_softcapping", "final_logit_softcapping")),
                (tensors(), {**SETTINGS, "num_query_groups": 4}, "48 and 72"),
                (tensors(), {**SETTINGS, "linear_attention_freq": [1, 1]}, "linear_attention_freq")):
            with Model() as c:
                # A folder beside the weights is no part of a model in safetensors; a trainer's shards have it.
                makeds.write(os.path.join(c.dir, "save"), makeds.zero12(makeds.State({n: d[1] for n, d in t.items()}), 1))
                c.file("save/" + where, yaml({**settings, "x": head}, front))
                if isinstance(want, str):
                    c.is_no_model(want)
                else:
                    config = c.config()
                    assert {k: config.get(k) for k in want} == want, (where, config)
                    assert json.loads(c.run("cat", "hf/recipe.json", at="save").stdout)["settings"] == "state/" + os.path.basename(where)


def names_in_front_are_stripped_and_notes_are_told():
    text = b'recipe mine "Mine"\nstrip a.b. before a.b.x\nnote true "so it is"\nnote false "so it is not"\nx.y <- x.z\ny <- y\n'
    for front, ok in (("a.b.", True), ("", False)):
        with Model() as c:
            c.safetensors("save/model.safetensors", {front + "x.z" if ok else "x.q": numbered([3], 0), front + "y": numbered([2], 5)})
            opts = ("-o", "recipe=" + c.file("mine.recipe", text))
            if ok:
                assert set(c.names(*opts)) - {"__metadata__"} == {"x.y", "y"}
                r = c.run("info", None, *opts, at="save").stdout.decode()
                assert "hf/: so it is\n" in r and "is not" not in r, r
                assert json.loads(c.run("cat", "hf/recipe.json", *opts, at="save").stdout)["notes"] == ["so it is"]
            else:
                c.refused("no x.z", at="save", opts=opts)


def a_config_json_of_side_counts_beside_one_of_the_trainer():
    t = olmo_core()
    attention = {"n_heads": 4, "n_kv_heads": 2, "bias": False, "rope": {"name": "default", "theta": 10000}}
    own = {"model": {"d_model": 16, "n_layers": LAYERS, "vocab_size": ROWS, "block": {
        "name": "default", "attention": attention, "feed_forward": {"hidden_size": 10}, "layer_norm": {"name": "rms", "eps": 1e-5}}}}
    side = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_attention_heads": 4, "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "bos_token_id": 7}
    for change in ({}, {"num_attention_heads": 8}, {"rms_norm_eps": 1e-6}):
        with Model() as c:
            c.put(t, own, "config.json")
            c.file("side/config.json", {**side, **change})
            opts = ("-o", "side=" + os.path.join(c.dir, "side"))
            if change:
                c.is_no_model(*change, "in config.json", opts=opts)
                if "rms_norm_eps" in change:  # no more digits than give the same number back
                    c.is_no_model("rms_norm_eps is 1e-5 in the checkpoint, but 1e-6 in config.json", opts=opts)
            else:
                shown = json.loads(c.run("cat", "hf/config.json", *opts, at="save").stdout)
                assert {k: shown[k] for k in side} == side and (shown["num_key_value_heads"], shown["hidden_size"], shown["hidden_act"]) == (2, 16, "silu")
                c.file("side/config.json", shown)
                c.cat("hf/config.json", json.dumps(shown).encode(), *opts, at="save")
                assert json.loads(c.run("cat", "as/bf16/hf/config.json", *opts, at="save").stdout)["bos_token_id"] == 7
            c.cat("config.json", json.dumps(own).encode(), *opts, at="save")


main([rotary_embeddings_of_megatron, settings_of_a_wrong_type, settings_that_fit_no_recipe_are_said, layers_with_experts_are_those_of_moe_layer_freq, deepseek_v2_of_megatron, deepseek_v3_of_megatron,
      gpt2_of_megatron, gpt2_with_groups_of_queries_is_refused, the_vocabulary_of_gpt2_is_cut_by_a_config_json_from_outside, nemotron_of_megatron, settings_in_yaml_of_nemo_and_bridge, names_in_front_are_stripped_and_notes_are_told,
      a_config_json_of_side_counts_beside_one_of_the_trainer])
