#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OLMo 0.x and OLMo-core in all their kinds: which norms, halves, orders of experts and rotary scalings the settings mean.
Source: allenai/OLMo scripts/convert_olmo2_to_hf.py, OLMo-core nn/hf/convert.py, nn/attention, nn/moe/mlp.py, nn/rope.py."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
from golden import main  # noqa: E402 pylint: disable=wrong-import-position
from models import Numbers, Save, needs_a_tied_head  # noqa: E402 pylint: disable=wrong-import-position

HEADS, GROUPS, WIDTH, FFN, ROWS, LAYERS, EXPERTS = 4, 2, 16, 10, 24, 2, 3
KV = WIDTH // HEADS * GROUPS
MLP = (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj"))
OLMO = {"d_model": WIDTH, "n_heads": HEADS, "n_kv_heads": GROUPS, "n_layers": LAYERS, "mlp_hidden_size": 2 * FFN, "vocab_size": 20, "embedding_size": ROWS,
        "weight_tying": False, "rope": True, "rope_theta": 20000.0, "layer_norm_with_affine": False, "include_bias": False, "max_sequence_length": 64,
        "eos_token_id": 3, "pad_token_id": 1}
OLMO2 = {**OLMO, "layer_norm_type": "rms", "norm_after": True, "attention_layer_norm": True, "layer_norm_with_affine": True, "layer_norm_eps": 1e-6}


def olmo(second, kv=KV):
    m = Numbers()
    m.put("transformer.wte.weight", [ROWS, WIDTH], "model.embed_tokens.weight")
    m.put("transformer.ff_out.weight", [ROWS, WIDTH], "lm_head.weight")
    if second:
        m.put("transformer.ln_f.weight", [WIDTH], "model.norm.weight")
    for i in range(LAYERS):
        p, q = f"transformer.blocks.{i}.", f"model.layers.{i}."
        m.put(p + "att_proj.weight", [WIDTH + 2 * kv, WIDTH], rows={q + f"self_attn.{x}_proj.weight": n for x, n in (("q", WIDTH), ("k", kv), ("v", kv))})
        m.put(p + "attn_out.weight", [WIDTH, WIDTH], q + "self_attn.o_proj.weight")
        m.put(p + "ff_proj.weight", [2 * FFN, WIDTH], rows={q + "mlp.up_proj.weight": FFN, q + "mlp.gate_proj.weight": FFN})
        m.put(p + "ff_out.weight", [WIDTH, FFN], q + "mlp.down_proj.weight")
        if second:
            m.put(p + "attn_norm.weight", [WIDTH], q + "post_attention_layernorm.weight")
            m.put(p + "ff_norm.weight", [WIDTH], q + "post_feedforward_layernorm.weight")
            m.put(p + "q_norm.weight", [WIDTH], q + "self_attn.q_norm.weight")
            m.put(p + "k_norm.weight", [kv], q + "self_attn.k_norm.weight")
    return m


def judged(m, file, settings, cases, architecture):
    """cases: settings with what they must be refused with (one of several words), or the fields of config.json."""
    for change, want in cases:
        with Save() as c:
            c.safetensors("save/model.safetensors", m.save)
            c.file("save/" + file, settings(change))
            if isinstance(want, str):
                said = c.run("info", None, "-v", at="save").stdout.decode()
                assert any(w in line for w in want.split("|") for line in said.splitlines() if "hf/ is" in line or "none of its recipes fits" in line), (change, said)
                assert "model.embed_tokens.weight" not in c.model()
            else:
                c.holds(m, architecture, **want)


WRONG = (({"alibi": True}, "ALiBi"), ({"rope": False}, "rotary"), ({"include_bias": True}, "include_bias"), ({"activation_type": "gelu"}, "activation_type"),
         ({"block_type": "llama"}, "block_type"), ({"embedding_layer_norm": True}, "norm behind the embedding"), ({"scale_logits": True}, "scaled logits"),
         ({"d_model": 32}, "16 and 32"), ({"embedding_size": 32}, "24 and 32"), ({"embedding_size": None}, "24 and 20"), ({"n_kv_heads": 4}, "att_proj"),
         ({"n_kv_heads": None}, "att_proj"), ({"mlp_hidden_size": 40}, "20 and 40"), ({"mlp_hidden_size": None, "mlp_ratio": 4}, "20 and 64"), ({"n_layers": 3}, "2 and 3"),
         ({"weight_tying": True}, "weight_tying"), ({"weight_tying": None}, "weight_tying"))


def olmo_of_both_generations():
    def settings(plain):
        return lambda change: ("model: " + json.dumps({**plain, **change}) + "\n").encode()
    want = {"rope_theta": 20000.0, "vocab_size": ROWS, "intermediate_size": FFN, "num_key_value_heads": GROUPS, "max_position_embeddings": 64, "eos_token_id": 3,
            "pad_token_id": 1, "tie_word_embeddings": False}
    judged(olmo(False), "config.yaml", settings(OLMO), (
        ({}, {**want, "clip_qkv": None}), ({"clip_qkv": 8.0}, {"clip_qkv": 8.0}), ({"rope_theta": None}, {"rope_theta": 10000.0}),
        ({"layer_norm_with_affine": True}, "layer_norm_with_affine"), ({"layer_norm_with_affine": None}, want), ({"layer_norm_eps": 1e-6}, "layer_norm_eps"), ({"attention_layer_norm": True}, "attention_layer_norm"),
        ({"norm_after": True}, "none of its recipes fits"), ({"layer_norm_type": "rms"}, "none of its recipes fits"), *WRONG), "OlmoForCausalLM")
    judged(olmo(True), "config.yaml", settings(OLMO2), (
        ({}, {**want, "rms_norm_eps": 1e-6}), ({"clip_qkv": 8.0}, "clip_qkv"), ({"norm_after": False}, "none of its recipes fits"), ({"attention_layer_norm": False}, "none of its recipes fits"),
        ({"layer_norm_type": "default"}, "none of its recipes fits"), *WRONG), "Olmo2ForCausalLM")
    grouped = Numbers()
    grouped.save = {n.replace(".blocks.", ".block_groups.0."): t for n, t in olmo(False).save.items()}
    judged(grouped, "config.yaml", settings(OLMO), (({"block_group_size": 2}, "layers lie in groups (block_group_size)"),), "OlmoForCausalLM")
    judged(olmo(False, 4), "config.yaml", settings(OLMO), (({"n_kv_heads": None, "multi_query_attention": True}, {"num_key_value_heads": 1}),), "OlmoForCausalLM")


def core(behind, norms=None, bias=False, fused=False, moe=None, old=False):
    """norms: "all", over all heads, or "each"; moe: the order of the experts' elements."""
    m = Numbers()
    m.put("embeddings.weight", [ROWS, WIDTH], "model.embed_tokens.weight")
    m.put("norm.weight" if old else "lm_head.norm.weight", [WIDTH], "model.norm.weight")
    m.put("w_out.weight" if old else "lm_head.w_out.weight", [ROWS, WIDTH], "lm_head.weight")
    for i in range(LAYERS):
        p, q = f"blocks.{i}.", f"model.layers.{i}."
        names = ("post_attention_layernorm", "post_feedforward_layernorm") if behind else ("input_layernorm", "post_attention_layernorm")
        m.put(p + "attention_norm.weight", [WIDTH], q + names[0] + ".weight")
        m.put(p + "feed_forward_norm.weight", [WIDTH], q + names[1] + ".weight")
        sizes = (("q", WIDTH), ("k", KV), ("v", KV))
        if fused:
            m.put(p + "attention.w_qkv.weight", [WIDTH + 2 * KV, WIDTH], rows={q + f"self_attn.{x}_proj.weight": n for x, n in sizes})
        for kind in ("weight", "bias") if bias else ("weight",):
            for x, n in () if fused else sizes:
                m.put(p + f"attention.w_{x}.{kind}", [n, WIDTH][:2 if kind == "weight" else 1], q + f"self_attn.{x}_proj.{kind}")
            m.put(p + "attention.w_out." + kind, [WIDTH, WIDTH][:2 if kind == "weight" else 1], q + "self_attn.o_proj." + kind)
        for x, n in (("q", WIDTH), ("k", KV)) if norms else ():
            m.put(p + f"attention.{x}_norm.weight", [n if norms == "all" else WIDTH // HEADS], q + f"self_attn.{x}_norm.weight")
        for name, proj in MLP:
            if not moe:
                m.put(p + f"feed_forward.{name}.weight", [WIDTH, FFN] if name == "w2" else [FFN, WIDTH], q + f"mlp.{proj}.weight")
                continue
            turned, tall, front = name == "w2" or moe == "default", FFN if name == "w2" or moe == "dropless" else WIDTH, p + "feed_forward_moe.experts.mlp."
            parts = []
            for e in range(EXPERTS):
                at = (m.turned if turned else m.put)
                at(f"part {e}", [tall, WIDTH + FFN - tall], q + f"mlp.experts.{e}.{proj}.weight")
                parts.append(m.save.pop(f"part {e}"))
            m.save[front + name] = ("I32", [EXPERTS * tall, WIDTH + FFN - tall], b"".join(t[2] for t in parts))
        if moe:
            m.put(p + "feed_forward_moe.router.weight", [EXPERTS * WIDTH], q + "mlp.gate.weight")
            m.want[q + "mlp.gate.weight"] = ([EXPERTS, WIDTH], m.want[q + "mlp.gate.weight"][1])
    return m


def experiment(kind, place="sequence_mixer", moe=None, **attention):
    """settings(change): change has "a.b" for a field of the model, and None for one that is not there."""
    def settings(change):
        norm = {"name": "rms", "eps": 1e-5}
        block = {"name": kind, "layer_norm": norm, place: {"n_heads": HEADS, "n_kv_heads": GROUPS, "bias": False, "rope": {"name": "default", "theta": 20000}, **attention}}
        if moe:
            block["feed_forward_moe"] = {"name": moe, "num_experts": EXPERTS, "hidden_size": FFN, "router": {"name": "default", "top_k": 2}}
        else:
            block["feed_forward"] = {"hidden_size": FFN, "bias": False}
        all_of = {"d_model": WIDTH, "vocab_size": ROWS, "n_layers": LAYERS, "block": block, "lm_head": {"layer_norm": norm}}
        all_of = json.loads(json.dumps(all_of))
        for path, value in change.items():
            at, *keys = [all_of, *path.replace("mixer", "block." + place).split(".")]
            for k in keys[:-1]:
                at = at.setdefault(k, {})
            at[keys[-1]] = value
            if value is None:
                at.pop(keys[-1])
        return {"model": all_of, "dataset": {"sequence_length": 64}}
    return settings


RMS = {"name": "rms", "eps": 1e-5}
SIZES = (({"d_model": 32}, "16 and 32"), ({"vocab_size": 32}, "24 and 32"), ({"n_layers": 3}, "2 and 3"), ({"mixer.n_heads": 8}, "w_out|w_k|q_norm|d_model|rows"),
         ({"mixer.rope.theta": None}, "rope.theta"), ({"block.layer_norm": None}, "layer_norm.eps"), ({"block.layer_norm.eps": None}, {"rms_norm_eps": 1e-5}), ({"block.layer_norm.eps": 1e-6, "lm_head.layer_norm.eps": None}, "several epsilons"), ({"block_pattern": ["a"]}, "block_pattern"),
         ({"embed_scale": 2.0}, "embed_scale"), ({"block.feed_forward_residual_alpha": 0.5}, "residual"), ({"tie_word_embeddings": True}, "tensors differ"),
         ({"block_overrides": {"1": {"name": "default"}}}, "block_overrides"))


def decoders_of_olmo_core():
    scaled = "olmo_core.nn.rope.%sRoPEScalingConfig"
    three = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 4096}
    scalings = (({"mixer.rope.scaling": {"_CLASS_": scaled % "Stepwise", "factor": 8, "old_context_len": 4096}}, {"rope_scaling": three}),
                ({"mixer.rope.scaling": {"_CLASS_": scaled % "Stepwise", "factor": 8, "old_context_len": 4096, "low_freq_proportion": 0.5, "high_freq_proportion": 0.125}},
                 {"rope_scaling": {**three, "low_freq_factor": 2.0, "high_freq_factor": 8.0}}),
                ({"mixer.rope.scaling": {"_CLASS_": scaled % "PI", "factor": 4}}, {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
                ({"mixer.rope.scaling": {"_CLASS_": scaled % "PI"}}, {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
                ({"mixer.rope.scaling": {"_CLASS_": scaled % "PI", "factor": 4, "attention_rescale_factor": 1.2}}, "attention_rescale_factor"),
                ({"mixer.rope.scaling": {"_CLASS_": scaled % "", "factor": 8, "old_context_len": 4096}}, {"rope_scaling": three}), ({"mixer.rope.scaling": {"_CLASS_": scaled % "New"}}, "unknown scaling"),
                ({"mixer.rope.scaling": {"_CLASS_": scaled % "ABF", "new_theta": 80000}}, {"rope_theta": 80000.0, "rope_scaling": None}),
                ({"mixer.rope.scaling": {"_CLASS_": scaled % "YaRN", "factor": 4, "old_context_len": 1800}}, "ramp of YaRN"),
                ({"mixer.rope.scaling": {"_CLASS_": scaled % "YaRN", "factor": 0.5, "old_context_len": 512}}, "factor below 1"),
                ({"mixer.rope.scaling": {"_CLASS_": scaled % "YaRN", "factor": 4, "old_context_len": 1700, "beta_fast": 16, "beta_slow": 2}},
                 {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1700, "beta_fast": 16, "beta_slow": 2}}))
    plain = {"rope_theta": 20000.0, "rms_norm_eps": 1e-5, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "attention_bias": False, "vocab_size": ROWS,
             "intermediate_size": FFN, "max_position_embeddings": 64, "tie_word_embeddings": False}
    mlp = (({"block.feed_forward.hidden_size": 12}, "10 and 12"), ({"block.feed_forward.activation": "gelu"}, "activation"),
           ({"block.feed_forward.activation": "gelu_tanh"}, {"hidden_act": "gelu_pytorch_tanh"}))
    for place in ("sequence_mixer", "attention"):  # 3.x and 2.x
        judged(core(False), "config.json", experiment("default", place), (({}, {**plain, "head_dim": 4}), *scalings, *SIZES, *mlp), "LlamaForCausalLM")
        judged(core(False, "each"), "config.json", experiment("default", place, qk_norm=RMS, use_head_qk_norm=True), (
            ({}, {**plain, "head_dim": 4}), ({"mixer.use_head_qk_norm": False}, "none of its recipes fits"), *scalings[:1], *SIZES,
            *(({"block.layer_norm.eps": 1e-6, "lm_head.layer_norm.eps": 1e-6, "mixer.qk_norm": q}, said) for q, said in (
                ({"name": "rms"}, "several epsilons"), ({**RMS, "eps": 1e-6}, {"rms_norm_eps": 1e-6})))), "Qwen3ForCausalLM")
        judged(core(True, "all"), "config.json", experiment("reordered_norm", place, qk_norm=RMS), (
            ({}, plain), ({"mixer.use_head_qk_norm": True}, "each head's|length of q_norm"), ({"mixer.head_dim": 8}, "head"), *scalings[-1:], *SIZES, *mlp), "Olmo2ForCausalLM")
    judged(core(False, bias=True), "config.json", experiment("default", bias=True), (({}, {"attention_bias": True}), ({"mixer.bias": None}, {"attention_bias": True}),
                                                                                     ({"mixer.bias": False}, "neither used")), "LlamaForCausalLM")
    judged(core(False, fused=True), "config.json", experiment("default"), (({}, plain), ({"mixer.n_kv_heads": 4}, "outside")), "LlamaForCausalLM")
    judged(core(False, old=True), "config.json", experiment("default", "attention"), (({}, plain),), "LlamaForCausalLM")


def experts_of_olmo_core():
    router = (({"block.feed_forward_moe.router.normalize_expert_weights": 1.0}, {"norm_topk_prob": True}),
              ({"block.feed_forward_moe.router.normalize_expert_weights": 2.0}, "normalize_expert_weights"), ({"block.feed_forward_moe.shared_mlp": {"hidden_size": 4}}, "shared_mlp"),
              ({"block.feed_forward_moe.router.uniform_expert_assignment": True}, "without a router"), ({"block.feed_forward_moe.router.gating_function": "sigmoid"}, "gating_function"),
              ({"block.feed_forward_moe.router.bias_gamma": 0.1}, "bias_gamma"), ({"block.feed_forward_moe.name": "new"}, "feed_forward_moe.name"),
              ({"block.feed_forward_moe.num_experts": 2}, "divides|multiple|brackets|axis"), ({"mixer.use_head_qk_norm": True}, "each head's|length of q_norm"), *SIZES)
    want = {"num_experts": EXPERTS, "num_experts_per_tok": 2, "norm_topk_prob": False, "intermediate_size": FFN, "num_key_value_heads": GROUPS}
    for order, other in (("dropless", "default"), ("default", "dropless")):
        wrong = ({"block.feed_forward_moe.name": other}, "axis|differs|divides|brackets|outside|shape"), *router
        judged(core(False, "all", moe=order), "config.json", experiment("moe", moe=order, qk_norm=RMS), (
            ({}, {**want, "clip_qkv": None}), ({"mixer.clip_qkv": 8.0}, "clip_qkv"), *wrong), "OlmoeForCausalLM")
        judged(core(True, "all", moe=order), "config.json", experiment("moe_reordered_norm", moe=order, qk_norm=RMS), (({}, want), ({"mixer.clip_qkv": 8.0}, "clip_qkv"), *wrong),
               "FlexOlmoForCausalLM")


def experts_without_norms_of_queries_are_mixtral():
    names = (("mlp.gate.", "block_sparse_moe.gate."), ("mlp.experts.", "block_sparse_moe.experts."), (".gate_proj.", ".w1."), (".up_proj.", ".w3."), (".down_proj.", ".w2."))
    for order, other in (("dropless", "default"), ("default", "dropless")):
        m = core(False, moe=order)
        for old, new in names:
            m.want = {n.replace(old, new): t for n, t in m.want.items()}

        def settings(change, order=order):
            return experiment("moe", moe=order)({"block.feed_forward_moe.router.normalize_expert_weights": 1.0, **change})
        judged(m, "config.json", settings, (
            ({}, {"num_local_experts": EXPERTS, "num_experts": None, "num_experts_per_tok": 2, "intermediate_size": FFN, "num_key_value_heads": GROUPS, "head_dim": 4, "sliding_window": None,
                  "rope_theta": 20000.0, "rms_norm_eps": 1e-5}),
            ({"block.feed_forward_moe.name": other}, "axis|differs|divides|brackets|outside|shape"),
            ({"block.feed_forward_moe.router.normalize_expert_weights": None}, "which Mixtral divides (normalize_expert_weights)"),
            ({"block.feed_forward_moe.router.normalize_expert_weights": 2.0}, "normalize_expert_weights"), ({"block.feed_forward_moe.router.bias_gamma": 0.1}, "bias_gamma"),
            ({"mixer.bias": True}, "biases of queries, which Mixtral has not"), ({"mixer.clip_qkv": 8.0}, "clip_qkv"), ({"mixer.n_heads": 8}, "rows of w_k"),
            ({"mixer.sliding_window": {"pattern": [4]}}, "none of its recipes fits"), ({"block.name": "moe_reordered_norm"}, "none of its recipes fits"), *SIZES), "MixtralForCausalLM")


def heads_that_are_not_d_model_wide_are_refused_behind_reordered_norms():
    for kind, moe, behind, architecture in (("reordered_norm", None, True, "Olmo2ForCausalLM"), ("moe_reordered_norm", "dropless", True, "FlexOlmoForCausalLM"), ("moe", "dropless", False, "OlmoeForCausalLM")):
        m = core(behind, "all", moe=moe)
        for i in range(LAYERS):
            for n, shape in (("w_q.weight", [32, WIDTH]), ("w_k.weight", [16, WIDTH]), ("w_v.weight", [16, WIDTH]), ("w_out.weight", [WIDTH, 32]), ("q_norm.weight", [32]), ("k_norm.weight", [16])):
                m.put(f"blocks.{i}.attention.{n}", shape)
        judged(m, "config.json", experiment(kind, moe=moe, qk_norm=RMS), (({"mixer.head_dim": 8}, "heads of d_model / n_heads, head_dim is another"),), architecture)


def windows_of_olmo_3():
    def of(**window):
        return {"mixer.sliding_window": {"pattern": [6, -1], "force_full_attention_on_first_layer": False, "force_full_attention_on_last_layer": False, **window}}
    yarn = {"_CLASS_": "olmo_core.nn.rope.YaRNRoPEScalingConfig", "factor": 4, "old_context_len": 512}
    base = {"rope_type": "default", "rope_theta": 20000.0}
    settings = experiment("reordered_norm", qk_norm=RMS)
    full = settings({"mixer.rope.scaling": yarn})["model"]["block"]
    wide, kinds = {"sliding_window": 6}, ["sliding_attention", "full_attention"]
    judged(core(True, "all"), "config.json", settings, (
        (of(), {**wide, "layer_types": kinds}), (of(pattern=[-1, 6]), {**wide, "layer_types": kinds[::-1]}),
        (of(pattern=[6, 6]), {**wide, "layer_types": kinds[:1] * 2}), (of(force_full_attention_on_first_layer=True), {**wide, "layer_types": kinds[::-1]}),
        (of(pattern=[6], force_full_attention_on_last_layer=True), {**wide, "layer_types": kinds}),
        ({"mixer.sliding_window": {"pattern": [6, -1]}}, {"layer_types": kinds[1:] * 2}),
        (of(pattern=[-1]), {"layer_types": kinds[1:] * 2, "sliding_window": None, "rope_parameters": {"sliding_attention": base, "full_attention": base}}),
        (of(pattern=[6, 4]), "several sizes"), (of(pattern=[]), "pattern"), ({**of(), "mixer.rope.scaling": yarn}, "layers with windows"),
        ({**of(), "block_overrides": {"1": full}}, {"layer_types": kinds, "rope_scaling": {
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "beta_fast": 32, "beta_slow": 1},
            "rope_parameters": {"sliding_attention": base, "full_attention": {"rope_type": "yarn", "rope_theta": 20000.0}}}),
        ({**of(), "block_overrides": {"1": settings({"mixer.rope.scaling": {"_CLASS_": "olmo_core.nn.rope.ABFRoPEScalingConfig", "new_theta": 80000}})["model"]["block"]}}, {
            "rope_parameters": {"sliding_attention": base, "full_attention": {"rope_type": "default", "rope_theta": 80000.0}}}),
        ({**of(), "block_overrides": {"0": settings({})["model"]["block"]}}, {"layer_types": kinds[1:] * 2}),
        ({**of(), "block_overrides": {"0": full}}, "full attention alone"), ({**of(), "block_overrides": {"0": full, "1": settings({})["model"]["block"]}}, "that differ"),
        ({**of(), "block_overrides": {"1": {**full, "name": "default"}}}, "another kind"),
        ({**of(), "block_overrides": {"1": {**full, "feed_forward_residual_alpha": 0.5}}}, "scaled residual"),
        ({**of(), "block_overrides": {"1": {**full, "layer_norm": {"name": "rms"}}}}, "another kind"),
        *(({**of(), "block_overrides": {"1": {**full, "sequence_mixer": {**full["sequence_mixer"], k: v}}}}, said) for k, v, said in (
            ("n_heads", 2, "other heads"), ("n_kv_heads", 4, "other heads"), ("rope", {"name": "default", "theta": 1}, "another base"), ("rope", {"name": "default", "theta": 20000, "partial_rotary_factor": 0.5}, "another rotary"),
            ("clip_qkv", 8.0, "another attention"), ("qk_norm", {"name": "rms"}, "another attention"), ("sliding_window", {"pattern": [3]}, "other windows")))), "Olmo3ForCausalLM")


def tensors_that_no_class_has_are_refused_by_name():
    for name, said in (("blocks.0.attention.w_g.weight", "attention with gates (attention.w_g)"), ("blocks.0.attention.sinks", "attention with sinks"),
                       ("embedding_norm.weight", "a norm behind the embedding (embedding_norm)")):
        m = core(False)
        m.put(name, [WIDTH])
        judged(m, "config.json", experiment("default"), (({}, said),), "LlamaForCausalLM")
    judged(core(True, "each"), "config.json", experiment("reordered_norm", qk_norm=RMS, use_head_qk_norm=True), (({}, "norms of each head's queries"),), "Olmo2ForCausalLM")
    with Save() as c:  # a head that is lost is not said to differ
        m = core(False)
        head = m.save.pop("lm_head.w_out.weight")
        path = c.safetensors("save/model.safetensors", {**m.save, "lm_head.w_out.weight": (*head[:2], m.save["embeddings.weight"][2])})
        c.file("save/config.json", experiment("default")({"tie_word_embeddings": True}))
        c.told("hf/ is the model LlamaForCausalLM", at="save")
        os.truncate(path, os.path.getsize(path) - 100)
        c.told("hf/ is not the model LlamaForCausalLM", "which cannot be seen", at="save", opts=("-o", "degraded,lost=omit"))


def a_vocabulary_is_cut_by_a_config_json_from_outside():
    m = core(True, "all")
    for n in ("model.embed_tokens.weight", "lm_head.weight"):
        m.want[n] = ([20, WIDTH], m.want[n][1][:20 * WIDTH * 4])
    with Save() as c:
        c.safetensors("save/model.safetensors", m.save)
        c.file("save/config.json", experiment("reordered_norm", qk_norm=RMS)({}))
        c.file("side/config.json", {"model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"], "vocab_size": 20, "num_attention_heads": HEADS})
        c.holds(m, "Olmo2ForCausalLM", "-o", "side=" + os.path.join(c.dir, "side"), vocab_size=20)


def a_config_json_from_outside_scales_as_the_settings_say():
    m, yarn = core(True, "all"), {"_CLASS_": "olmo_core.nn.rope.YaRNRoPEScalingConfig", "factor": 4, "old_context_len": 512}
    side = {"model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"], "rope_theta": 20000.0}
    for scaling, outside, want in ((yarn, None, {"factor": 4.0, "rope_type": "yarn"}), (yarn, {"type": "yarn", "factor": 4.0}, {"rope_type": "yarn", "beta_fast": 32}),
                                   (yarn, {"rope_type": "linear", "factor": 4.0}, None), (None, {"rope_type": "yarn", "factor": 4.0}, None), (None, None, {})):
        with Save() as c:
            c.safetensors("save/model.safetensors", m.save)
            c.file("save/config.json", experiment("reordered_norm", qk_norm=RMS)({"mixer.rope.scaling": scaling} if scaling else {}))
            c.file("side/config.json", {**side, "rope_scaling": outside})
            opts = ("-o", "side=" + os.path.join(c.dir, "side"))
            if want is None:
                c.told("hf/ is not the model Olmo2ForCausalLM", "rope_", at="save", opts=opts)
            else:
                c.holds(m, "Olmo2ForCausalLM", *opts, rms_norm_eps=1e-5, num_key_value_heads=GROUPS)
                assert (c.config(*opts)["rope_scaling"] or {}).items() >= want.items(), c.config(*opts)


def fronts_are_taken_off():
    for m, file, settings, architecture in ((olmo(False), "config.yaml", ("model: " + json.dumps(OLMO) + "\n").encode(), "OlmoForCausalLM"),
                                            (core(False), "config.json", experiment("default")({}), "LlamaForCausalLM")):
        for front in ("module.", "model."):
            with Save() as c:
                c.safetensors("save/model.safetensors", {front + k: v for k, v in m.save.items()})
                c.file("save/" + file, settings)
                c.holds(m, architecture)


def gains_of_each_head_are_refused():
    """Their number may be that of a head's elements."""
    m = core(False, "each")
    for x in "qk":
        for i in range(LAYERS):
            m.put(f"blocks.{i}.attention.{x}_norm.weight", [WIDTH // HEADS, WIDTH // HEADS], f"model.layers.{i}.self_attn.{x}_norm.weight")
    judged(m, "config.json", experiment("default", qk_norm=RMS, use_head_qk_norm=True), (({"mixer.qk_norm_per_head_gains": True}, "qk_norm_per_head_gains"),), "Qwen3ForCausalLM")


def a_head_that_is_the_embedding_is_left_out():
    m = core(False)
    m.want.pop("lm_head.weight")
    m.copy("lm_head.w_out.weight", "embeddings.weight")
    judged(m, "config.json", experiment("default"), (({"tie_word_embeddings": True}, {"tie_word_embeddings": True}),), "LlamaForCausalLM")


def a_config_json_that_does_not_tie_the_head_is_refused():
    for second, plain, architecture, kind in ((False, OLMO, "OlmoForCausalLM", "olmo"), (True, OLMO2, "Olmo2ForCausalLM", "olmo2")):
        m = olmo(second)
        m.save.pop("transformer.ff_out.weight")
        m.want.pop("lm_head.weight")
        needs_a_tied_head(m, "config.yaml", ("model: " + json.dumps({**plain, "weight_tying": True}) + "\n").encode(), architecture, kind)
    m = core(False)
    m.want.pop("lm_head.weight")
    m.copy("lm_head.w_out.weight", "embeddings.weight")
    needs_a_tied_head(m, "config.json", experiment("default")({"tie_word_embeddings": True}), "LlamaForCausalLM", "llama")


main([experts_without_norms_of_queries_are_mixtral, heads_that_are_not_d_model_wide_are_refused_behind_reordered_norms, tensors_that_no_class_has_are_refused_by_name, a_config_json_that_does_not_tie_the_head_is_refused, olmo_of_both_generations, decoders_of_olmo_core, experts_of_olmo_core, windows_of_olmo_3, a_vocabulary_is_cut_by_a_config_json_from_outside,
      gains_of_each_head_are_refused, a_config_json_from_outside_scales_as_the_settings_say, fronts_are_taken_off,
      a_head_that_is_the_embedding_is_left_out])
