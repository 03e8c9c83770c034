# SPDX-License-Identifier: Apache-2.0
"""Recipes against transformers: a model with random weights is put under a trainer's names, fused and re-ordered as the trainer does,
by code that is written here; hf/ must hold the tensors that save_pretrained writes, and from_pretrained give the same logits.
A setting that is wrong must be noticed: by zerofs, or in the logits."""
import json
import os

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from mount import Mount

LAYERS, HEADS, GROUPS, DIM, WIDTH, FFN, EXPERTS, EXPERT_FFN = 2, 4, 2, 8, 32, 48, 4, 16
COMMON = {"vocab_size": 64, "hidden_size": WIDTH, "intermediate_size": FFN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
          "num_key_value_heads": GROUPS, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
          "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
ARGS = {"num_layers": LAYERS, "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_query_groups": GROUPS, "group_query_attention": True,
        "kv_channels": DIM, "ffn_hidden_size": FFN, "normalization": "RMSNorm", "swiglu": True, "position_embedding_type": "rope",
        "rotary_base": 10000, "norm_epsilon": 1e-5, "add_bias_linear": False, "untie_embeddings_and_output_weights": True,
        "max_position_embeddings": 64, "rotary_percent": 1.0, "moe_router_topk": 2, "moe_ffn_hidden_size": EXPERT_FFN}
HALVES = ("gate_proj", "up_proj")


def made(cls, config):
    model = cls(config)
    generator = torch.Generator().manual_seed(38)
    with torch.no_grad():
        for name, t in [*model.named_parameters(), *model.named_buffers()]:
            if "inv_freq" not in name:
                t.copy_(torch.randn(t.shape, generator=generator) * 0.2)
    return model.eval()


def fused(w, layer, kind):
    """Megatron's order: of each group its queries, its key, its value."""
    q, k, v = (w[f"{layer}self_attn.{x}_proj.{kind}"] for x in "qkv")
    rest = q.shape[1:]
    parts = [q.view(GROUPS, -1, DIM, *rest), k.view(GROUPS, 1, DIM, *rest), v.view(GROUPS, 1, DIM, *rest)]
    return torch.cat(parts, 1).reshape(-1, *rest)


def swiglu(w, at, kind="weight"):
    return torch.cat([w[f"{at}.{x}.{kind}"] for x in HALVES])


def megatron(moe=(), biases=()):
    def put(w):
        t = {"embedding.word_embeddings.weight": w["model.embed_tokens.weight"], "decoder.final_layernorm.weight": w["model.norm.weight"],
             "output_layer.weight": w["lm_head.weight"]}
        if "model.norm.bias" in w:
            t["decoder.final_layernorm.bias"] = w["model.norm.bias"]
        for i in range(LAYERS):
            p, q = f"model.layers.{i}.", f"decoder.layers.{i}."
            for kind in ("weight", "bias"):
                if p + "input_layernorm." + kind in w:
                    t[q + "self_attention.linear_qkv.layer_norm_" + kind] = w[p + "input_layernorm." + kind]
                    norm = "pre_mlp_layernorm." if i in moe else "mlp.linear_fc1.layer_norm_"
                    t[q + norm + kind] = w[p + "post_attention_layernorm." + kind]
            t[q + "self_attention.linear_proj.weight"] = w[p + "self_attn.o_proj.weight"]
            if p + "self_attn.k_proj.weight" in w:
                t[q + "self_attention.linear_qkv.weight"] = fused(w, p, "weight")
            else:
                latent(w, t, p, q)
            if "qkv" in biases:
                t[q + "self_attention.linear_qkv.bias"] = fused(w, p, "bias")
            if "all" in biases:
                t[q + "self_attention.linear_proj.bias"] = w[p + "self_attn.o_proj.bias"]
                t[q + "mlp.linear_fc1.bias"], t[q + "mlp.linear_fc2.bias"] = swiglu(w, p + "mlp", "bias"), w[p + "mlp.down_proj.bias"]
            for x in "qk":
                if p + f"self_attn.{x}_norm.weight" in w:
                    t[q + f"self_attention.{x}_layernorm.weight"] = w[p + f"self_attn.{x}_norm.weight"]
            if i in moe:
                experts(w, t, p, q)
            else:
                gated = p + "mlp.gate_proj.weight" in w
                t[q + "mlp.linear_fc1.weight"] = swiglu(w, p + "mlp") if gated else w[p + "mlp.up_proj.weight"]
                t[q + "mlp.linear_fc2.weight"] = w[p + "mlp.down_proj.weight"]
        return t
    return put


def experts(w, t, p, q):
    t[q + "mlp.router.weight"] = w[p + "mlp.gate.weight"]
    for e in range(EXPERTS):
        t[q + f"mlp.experts.experts.{e}.linear_fc1.weight"] = swiglu(w, p + f"mlp.experts.{e}")
        t[q + f"mlp.experts.experts.{e}.linear_fc2.weight"] = w[p + f"mlp.experts.{e}.down_proj.weight"]
    for shared in ("mlp.shared_expert", "mlp.shared_experts"):
        if p + shared + ".up_proj.weight" in w:
            t[q + "mlp.shared_experts.linear_fc1.weight"] = swiglu(w, p + shared)
            t[q + "mlp.shared_experts.linear_fc2.weight"] = w[p + shared + ".down_proj.weight"]
    for theirs, ours in (("mlp.shared_expert_gate.weight", "mlp.shared_experts.gate_weight"),
                         ("mlp.gate.e_score_correction_bias", "mlp.router.expert_bias")):
        if p + theirs in w:
            t[q + ours] = w[p + theirs]


def latent(w, t, p, q):
    """DeepSeek's attention; its first norm is no part of it."""
    t[q + "input_layernorm.weight"] = t.pop(q + "self_attention.linear_qkv.layer_norm_weight")
    names = {"q_proj": "linear_q_proj.weight", "q_a_proj": "linear_q_down_proj.weight", "q_b_proj": "linear_q_up_proj.weight",
             "q_a_layernorm": "linear_q_up_proj.layer_norm_weight", "kv_a_proj_with_mqa": "linear_kv_down_proj.weight",
             "kv_b_proj": "linear_kv_up_proj.weight", "kv_a_layernorm": "linear_kv_up_proj.layer_norm_weight"}
    for theirs, ours in names.items():
        if p + f"self_attn.{theirs}.weight" in w:
            t[q + "self_attention." + ours] = w[p + f"self_attn.{theirs}.weight"]


def olmo_core(norms, moe=None):
    def put(w):
        t = {"embeddings.weight": w["model.embed_tokens.weight"], "lm_head.norm.weight": w["model.norm.weight"],
             "lm_head.w_out.weight": w["lm_head.weight"]}
        for i in range(LAYERS):
            p, q = f"model.layers.{i}.", f"blocks.{i}."
            for x, name in zip("qkvo", ("w_q", "w_k", "w_v", "w_out")):
                t[q + f"attention.{name}.weight"] = w[p + f"self_attn.{x}_proj.weight"]
            for x in "qk":
                t[q + f"attention.{x}_norm.weight"] = w[p + f"self_attn.{x}_norm.weight"]
            for ours, theirs in zip(("attention_norm", "feed_forward_norm"), norms):
                t[q + ours + ".weight"] = w[p + theirs + ".weight"]
            for name, proj in (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")):
                if not moe:
                    t[q + f"feed_forward.{name}.weight"] = w[p + f"mlp.{proj}.weight"]
                    continue
                stacked = torch.stack([w[p + f"mlp.experts.{e}.{proj}.weight"] for e in range(EXPERTS)])
                turned = name == "w2" or moe == "default"
                t[q + f"feed_forward_moe.experts.mlp.{name}"] = (stacked.transpose(1, 2) if turned else stacked).flatten(0, 1)
                t[q + "feed_forward_moe.router.weight"] = w[p + "mlp.gate.weight"].reshape(-1)
        return t
    return put


def experiment(kind, moe=None, **attention):
    mixer = {"n_heads": HEADS, "n_kv_heads": GROUPS, "bias": False, "rope": {"theta": 10000}, "qk_norm": {"name": "rms"}, **attention}
    block = {"name": kind, "layer_norm": {"eps": 1e-5}, "sequence_mixer": mixer, "feed_forward": {"hidden_size": FFN, "bias": False}}
    if moe:
        block.pop("feed_forward")
        block["feed_forward_moe"] = {"name": moe, "num_experts": EXPERTS, "hidden_size": FFN, "router": {"top_k": 2}}
    return {"model": {"d_model": WIDTH, "vocab_size": 64, "n_layers": LAYERS, "block": block}, "dataset": {"sequence_length": 64}}


BEHIND, BEFORE = ("post_attention_layernorm", "post_feedforward_layernorm"), ("input_layernorm", "post_attention_layernorm")
MOE = {"num_experts": EXPERTS, "num_experts_per_tok": 2}
LATENT = {"q_lora_rank": None, "kv_lora_rank": 12, "v_head_dim": 6}
DEEPSEEK = {"num_key_value_heads": HEADS, **LATENT, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "n_routed_experts": EXPERTS, "n_shared_experts": 2,
            "num_experts_per_tok": 2, "moe_intermediate_size": EXPERT_FFN, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5,
            "n_group": 1, "topk_group": 1}
MLA = {"multi_latent_attention": True, "qk_layernorm": True, **LATENT, "qk_head_dim": 8, "qk_pos_emb_head_dim": 4, "num_experts": EXPERTS,
       "moe_shared_expert_intermediate_size": 2 * EXPERT_FFN, "moe_router_topk_scaling_factor": 1.5, "rotary_scaling_factor": 1.0}
KINDS = ("sliding_attention", "full_attention")  # of layers; rope_theta alone is that of full ones, sliding ones get 500000
WINDOWS = {"pattern": [6, 6, 6, -1], "force_full_attention_on_first_layer": False}


def config(name, **more):
    return getattr(hf, name + "Config")(**{**COMMON, **more})


# (name, class, config, names and order of the trainer, file and text of the settings, changes that must be noticed)
def cases():
    args, step = "transformer_config.json", "config.json"
    yield ("llama", "Llama", config("Llama", head_dim=DIM), megatron(), args, ARGS,
           [{"rotary_base": 500000}, {"norm_epsilon": 1e-2}, {"rotary_interleaved": True}, {"num_query_groups": 4}, {"ffn_hidden_size": 40},
            {"use_rope_scaling": True, "rope_scaling_factor": 8.0}, {"rotary_seq_len_interpolation_factor": 4},
            {"num_attention_heads": 8, "kv_channels": 4, "num_query_groups": 4}])
    yield ("llama with biases", "Llama", config("Llama", head_dim=DIM, attention_bias=True, mlp_bias=True),
           megatron(biases=("qkv", "all")), args, {**ARGS, "add_bias_linear": True}, [{"add_bias_linear": False}])
    yield ("mistral", "Mistral", config("Mistral", head_dim=DIM, sliding_window=6), megatron(), args, {**ARGS, "window_size": [5, 0]},
           [{"window_size": [2, 0]}, {"window_size": None}])
    yield ("qwen2-moe", "Qwen2Moe", config("Qwen2Moe", **MOE, moe_intermediate_size=EXPERT_FFN, shared_expert_intermediate_size=24, norm_topk_prob=True),
           megatron(moe=(0, 1), biases=("qkv",)), args,
           {**ARGS, "add_qkv_bias": True, "num_experts": EXPERTS, "moe_shared_expert_intermediate_size": 24, "moe_shared_expert_gate": True},
           [{"moe_router_pre_softmax": True}, {"moe_router_topk": 1}])
    yield ("qwen3-moe, every other layer", "Qwen3Moe",
           config("Qwen3Moe", **MOE, head_dim=DIM, moe_intermediate_size=EXPERT_FFN, norm_topk_prob=True, mlp_only_layers=[1]), megatron(moe=(0,)), args,
           {**ARGS, "qk_layernorm": True, "num_experts": EXPERTS, "moe_layer_freq": 2}, [{"moe_router_pre_softmax": True}])
    nemotron = {k: v for k, v in COMMON.items() if k != "rms_norm_eps"}
    yield ("nemotron", "Nemotron", hf.NemotronConfig(**nemotron, head_dim=DIM, norm_eps=1e-5, partial_rotary_factor=0.5), megatron(), args,
           {**ARGS, "swiglu": False, "squared_relu": True, "normalization": "LayerNorm", "apply_layernorm_1p": True, "rotary_percent": 0.5},
           [{"rotary_percent": 1.0}, {"apply_layernorm_1p": False}])
    yield ("deepseek 2", "DeepseekV2", config("DeepseekV2", **DEEPSEEK, topk_method="greedy"), megatron(moe=(1,)), args,
           {**ARGS, **MLA, "moe_router_pre_softmax": True}, [{"moe_router_topk_scaling_factor": 1.0}, {"moe_router_pre_softmax": False}])
    yield ("deepseek 3", "DeepseekV3", config("DeepseekV3", **{**DEEPSEEK, "q_lora_rank": 10}, norm_topk_prob=True), megatron(moe=(1,)), args,
           {**ARGS, **MLA, "q_lora_rank": 10, "moe_router_score_function": "sigmoid"}, [{"q_lora_rank": None}, {"qk_head_dim": 6}])
    turning = dict.fromkeys(KINDS, {"rope_type": "default", "rope_theta": 10000.0})
    yield ("olmo 3", "Olmo3", config("Olmo3", sliding_window=6, layer_types=list(KINDS), rope_parameters=turning), olmo_core(BEHIND),
           step, experiment("reordered_norm", sliding_window=WINDOWS), [experiment("reordered_norm", sliding_window={**WINDOWS, "pattern": [2, -1]})])
    yield ("flexolmo", "FlexOlmo", config("FlexOlmo", **MOE, norm_topk_prob=False), olmo_core(BEHIND, "default"), step,
           experiment("moe_reordered_norm", "default"), [experiment("moe_reordered_norm", "dropless")])
    yield ("olmoe", "Olmoe", config("Olmoe", **MOE, norm_topk_prob=False), olmo_core(BEFORE, "dropless"), step, experiment("moe", "dropless"),
           [experiment("moe", "default")])


def logits(model):
    tokens = torch.randint(0, 60, (2, 24), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return model(tokens).logits


def shards(folder):
    out = {}
    for name in os.listdir(folder):
        if name.endswith(".safetensors"):
            out.update(load_file(os.path.join(folder, name)))
    return out


def right(point, cls, want, model):
    got = shards(os.path.join(point, "hf"))
    assert got.keys() == want.keys(), sorted(got.keys() ^ want.keys())
    for name, t in want.items():
        assert torch.equal(got[name], t), name
    loaded, info = cls.from_pretrained(os.path.join(point, "hf"), dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    assert torch.equal(logits(loaded.eval()), logits(model))


def noticed(program, save, want, model, scratch):
    with Mount(program, save, [], scratch) as point:
        if shards(os.path.join(point, "hf")).keys() != want.keys():
            return  # refused, or another class
        loaded = hf.AutoModelForCausalLM.from_pretrained(os.path.join(point, "hf"), dtype=torch.float32).eval()
        assert type(loaded) is not type(model) or (logits(loaded) - logits(model)).abs().max() > 1e-5


NEOX = """{
  # one of the files that a run is started with
  "pos-emb": "rotary", "rotary-pct": 0.5, "rotary-emb-base": 20000, "num-layers": 2, "hidden-size": 32, "num-attention-heads": 4,
  "intermediate-size": 48, "gpt-j-residual": %s, "no-weight-tying": true, "layernorm-epsilon": 0.001, "max-position-embeddings": 64,
}"""
ALONG = {"word_embeddings.weight": 0, "final_linear.weight": 0, "query_key_value.weight": 0, "query_key_value.bias": 0,
         "dense_h_to_4h.weight": 0, "dense_h_to_4h.bias": 0, "attention.dense.weight": 1, "dense_4h_to_h.weight": 1}


def neox_name(name):
    """(layer, name in its file) of GPT-NeoX's pipeline."""
    if name.startswith("gpt_neox.layers."):
        i, rest = name[len("gpt_neox.layers."):].split(".", 1)
        return int(i) + 2, rest
    return {"gpt_neox.embed_in.weight": (0, "word_embeddings.weight"), "embed_out.weight": (LAYERS + 4, "final_linear.weight"),
            "gpt_neox.final_layer_norm.weight": (LAYERS + 3, "norm.weight"), "gpt_neox.final_layer_norm.bias": (LAYERS + 3, "norm.bias")}[name]


def neox(at, w, tp, text):
    """The files of one stage of a pipeline, as DeepSpeed (stage 1, one data rank) and GPT-NeoX name and cut them."""
    os.makedirs(os.path.join(at, "configs"))
    with open(os.path.join(at, "configs", "small.yml"), "w", encoding="utf-8") as f:
        f.write(text)
    for r in range(tp):
        layers, named = {}, {}
        for name, t in w.items():
            n, rest = neox_name(name)
            dim = next((d for end, d in ALONG.items() if rest.endswith(end)), None)
            part = t if dim is None else t.chunk(tp, dim)[r]
            named[f"{n}.{rest}"] = layers.setdefault(n, {})[rest] = part.contiguous().clone()
        for n, has in layers.items():
            torch.save(has, os.path.join(at, f"layer_{n:02d}-model_{r:02d}-model_states.pt"))
        torch.save({"module": None, "buffer_names": [], "optimizer": None, "param_shapes": [{n: t.shape for n, t in named.items()}],
                    "frozen_param_shapes": None, "shared_params": {}, "dp_world_size": 1, "mp_world_size": tp, "global_steps": 1,
                    "ds_version": "0.14.4", "ds_config": {}, "iteration": 1,
                    "args": {"num_layers": LAYERS, "hidden_size": WIDTH, "num_attention_heads": HEADS, "max_position_embeddings": 64,
                             "make_vocab_size_divisible_by": 64, "padded_vocab_size": 64, "tokenizer_type": "HFTokenizer",
                             "model_parallel_size": tp}}, os.path.join(at, f"mp_rank_{r:02d}_model_states.pt"))
        flat = torch.cat([t.flatten() for t in named.values()])
        torch.save({"optimizer_state_dict": {
            "zero_stage": 1, "partition_count": [1], "group_paddings": [0], "overflow": False, "single_partition_of_fp32_groups": [flat],
            "base_optimizer_state": {"state": {0: {"step": 1, "exp_avg": flat * 0, "exp_avg_sq": flat * 0}}, "param_groups": [{"lr": 0.1}]}},
            "ds_config": {}, "ds_version": "0.14.4"}, os.path.join(at, f"zero_pp_rank_0_mp_rank_{r:02d}_optim_states.pt"))


def pipelines(tap, program, scratch):
    for title, tp, parallel, wrong in (("one rank", 1, True, [("0.5", "0.25"), ("20000", "10000"), ("residual\": true", "residual\": false"), ("0.001", "0.1")]),
                                       ("two ranks", 2, False, [])):
        how = hf.GPTNeoXConfig(vocab_size=64, hidden_size=WIDTH, intermediate_size=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                               rotary_pct=0.5, rotary_emb_base=20000, use_parallel_residual=parallel, layer_norm_eps=1e-3,
                               max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)
        model, folder = made(hf.GPTNeoXForCausalLM, how), os.path.join(scratch, f"recipe-neox-{tp}")
        model.save_pretrained(os.path.join(folder, "hf"))
        want, text = shards(os.path.join(folder, "hf")), NEOX % str(parallel).lower()
        for k, (a, b) in enumerate([("", ""), *wrong]):
            save = os.path.join(folder, f"save-{k}")
            neox(save, want, tp, text.replace(a, b))
            if k:
                tap.run(f"recipes: gpt-neox, wrong setting {k} is noticed", noticed, program, save, want, model, scratch)
                continue
            with Mount(program, save, [], scratch) as point:
                tap.run(f"recipes: gpt-neox of {title} is the model of transformers", right, point, hf.GPTNeoXForCausalLM, want, model)


def run(tap, program, scratch):
    pipelines(tap, program, scratch)
    for name, kind, how, put, file, settings, wrong in cases():
        cls = getattr(hf, kind + "ForCausalLM")
        model, folder = made(cls, how), os.path.join(scratch, "recipe-" + name.replace(" ", "-").replace(",", ""))
        os.makedirs(os.path.join(folder, "save"))
        model.save_pretrained(os.path.join(folder, "hf"))
        want, save = shards(os.path.join(folder, "hf")), os.path.join(folder, "save")
        save_file({k: t.contiguous().clone() for k, t in put(want).items()}, os.path.join(save, "model.safetensors"))
        for k, change in enumerate([{}, *wrong]):
            with open(os.path.join(save, file), "w", encoding="utf-8") as f:
                json.dump({**settings, **change}, f)
            if k:
                tap.run(f"recipes: {name}, wrong setting {k} is noticed", noticed, program, save, want, model, scratch)
                continue
            with Mount(program, save, [], scratch) as point:
                tap.run(f"recipes: {name} is the model of transformers", right, point, cls, want, model)
