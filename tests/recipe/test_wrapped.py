#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers under the names of wrappers, MPT in Composer's one file, and Meta's Llama: what is taken off names, and what
settings are refused for."""
import argparse
import os
import pickle
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "format"), os.path.join(HERE, "..", "support")]
import mkdcp  # noqa: E402 pylint: disable=wrong-import-position
from golden import main  # noqa: E402 pylint: disable=wrong-import-position
from models import Numbers, Save  # noqa: E402 pylint: disable=wrong-import-position
from torchfile import Tensor, save  # noqa: E402 pylint: disable=wrong-import-position

LLAMA = ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", *(f"model.layers.{i}.{n}.weight" for i in range(2) for n in ("mlp.up_proj", "input_layernorm"))]
GPT2 = ["transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f.weight", "transformer.h.0.attn.c_attn.weight", "lm_head.weight"]
NEOX = ["gpt_neox.embed_in.weight", "gpt_neox.layers.0.attention.dense.weight", "embed_out.weight"]
CONFIG = {"model_type": "phi", "architectures": ["PhiForCausalLM"], "hidden_size": 3, "vocab_size": 4, "num_hidden_layers": 2, "tie_word_embeddings": False}
INSIDE = ("", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.", "_fsdp_wrapped_module._checkpoint_wrapped_module.")
IN_FRONT = ("module.", "module.module.", "model.", "model.module.", "module.model.", "app.model.", "app.", "app.model.model.", "state_dict.", "state_dict.model.", "state.model.",
            "state.model.model.", "_orig_mod.", "_fsdp_wrapped_module.", "_forward_module.", "_forward_module.model.", "_orig_mod.module.", "module._orig_mod.", "model._orig_mod.")


def names_in_front_and_inside_are_taken_off():
    for names, kind, architecture in ((LLAMA, "phi", "PhiForCausalLM"), (GPT2, "gpt2", "GPT2LMHeadModel"), (NEOX, "gpt_neox", "GPTNeoXForCausalLM")):
        for k, front in enumerate((*IN_FRONT, *IN_FRONT[:5])):
            m, inside = Numbers(), INSIDE[k % len(INSIDE)]
            for n in names if k < len(IN_FRONT) else [n for n in names if n.split(".")[0] not in ("lm_head", "embed_out")]:  # a tied head is not there
                m.put(front + n.replace(".0.", ".0." + inside), [4, 3], n)
            with Save() as c:
                c.safetensors("save/model.safetensors", m.save)
                c.file("save/config.json", {**CONFIG, "model_type": kind, "architectures": [architecture], "num_hidden_layers": 2 if names is LLAMA else 1})
                c.holds(m, architecture)


def settings_that_contradict_a_wrapped_model_are_refused():
    for names, embedding in ((LLAMA, LLAMA[0]), (GPT2, GPT2[0])):
        m = Numbers()
        for n in names:
            m.put("module." + n, [4, 3], n)
        for same, change, part in ((False, {}, None), (False, {"tie_word_embeddings": True}, "the tensors differ"), (True, {"tie_word_embeddings": True}, None),
                                   (False, {"vocab_size": 5}, "4 and 5"), (False, {"hidden_size": 5}, "3 and 5"), (False, {"num_hidden_layers": 3}, "2 and 3")):
            if names is GPT2 and "hidden_size" in change:
                continue
            part = "1 and 3" if names is GPT2 and part == "2 and 3" else part
            want = dict(m.want)
            with Save() as c:
                c.safetensors("save/model.safetensors", {**m.save, **({"module.lm_head.weight": m.save["module." + embedding]} if same else {})})
                c.file("save/config.json", {**CONFIG, **({"num_hidden_layers": 1} if names is GPT2 else {}), **change})
                if part:
                    c.told("hf/ is not converted by a recipe", part, at="save")
                    continue
                if same:
                    want.pop("lm_head.weight")
                assert c.model() == want
    with Save() as c:  # nothing says what it is a model of
        c.safetensors("save/model.safetensors", {"module." + n: t for n, t in (("a", m.save["module." + GPT2[0]]),)})
        assert list(c.model()) == ["module.a"]


MPT = {"d_model": 8, "n_heads": 2, "n_layers": 2, "expansion_ratio": 4, "max_seq_len": 64, "vocab_size": 6, "no_bias": True, "norm_type": "low_precision_layernorm", "norm_eps": 1e-4,
       "attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_type": "multihead_attention", "clip_qkv": 6, "qk_ln": False}, "ffn_config": {"ffn_type": "mptmlp"}}


DENSE = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "vocab_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 6, "tie_word_embeddings": False}


def dense(lacks=(), more=()):
    m = Numbers()
    shapes = {"self_attn.q_proj": [8, 8], "self_attn.k_proj": [4, 8], "self_attn.v_proj": [4, 8], "self_attn.o_proj": [8, 8], "mlp.gate_proj": [6, 8], "mlp.up_proj": [6, 8],
              "mlp.down_proj": [8, 6], "input_layernorm": [8], "post_attention_layernorm": [8]}
    all_of = [("model.embed_tokens.weight", [12, 8]), ("model.norm.weight", [8]), ("lm_head.weight", [12, 8]),
              *((f"model.layers.{i}.{n}.weight", s) for i in range(2) for n, s in shapes.items()), *((f"model.layers.{i}.{n}", [8]) for i in range(2) for n in more)]
    for n, s in all_of:
        if n not in lacks:
            m.put("module." + n, s, n)
    return m


def what_the_most_used_classes_need_is_there():
    q, up, head = "self_attn.q_proj.bias", "model.layers.1.mlp.up_proj.weight", "lm_head.weight"
    gemma = {"architectures": ["GemmaForCausalLM"], "model_type": "gemma"}
    qwen = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    for m, change, said in ((dense(), {}, None), (dense(), {"head_dim": 2}, None), (dense(), {"head_dim": None, "num_attention_heads": None}, None), (dense((head,)), {"tie_word_embeddings": True}, None),
                            (dense(more=(q,)), qwen, None), (dense(more=(q,)), {"attention_bias": True}, None),
                            (dense(), {"num_attention_heads": 2}, "k_proj and num_key_value_heads * head_dim of config.json: 4 and 8"), (dense(), {"head_dim": 4}, "8 and 16"),
                            (dense(), {"num_attention_heads": 8, "head_dim": 2}, "8 and 16"), (dense(), {"num_key_value_heads": None}, "4 and 8"), (dense(), {"intermediate_size": 7}, "6 and 7"),
                            (dense((up,)), {}, "layers with up_proj and num_hidden_layers of config.json: 1 and 2"), (dense((head,)), {}, "there is no head"),
                            (dense(), qwen, "biases of q_proj"), (dense(more=(q,)), {}, "biases of q_proj"), (dense(), {"attention_bias": True}, "biases of q_proj"),
                            (dense(), {"mlp_bias": True}, "biases of gate_proj"), (dense(), {"architectures": ["Qwen3ForCausalLM"]}, "norms of queries"),
                            (dense(more=("self_attn.q_norm.weight",)), {}, "norms of queries"), (dense(), {**gemma, "attention_bias": False}, None), (dense(more=(q,)), {**gemma, "attention_bias": True}, None),
                            (dense(), {**gemma, "attention_bias": True}, "biases of q_proj in the checkpoint and by config.json: false and true"), (dense(), {**gemma, "mlp_bias": True}, "biases of gate_proj"),
                            (dense(), {**gemma, "head_dim": 4}, "8 and 16"), (dense(), {**gemma, "head_dim": 2, "num_key_value_heads": 4}, "k_proj and num_key_value_heads * head_dim of config.json: 4 and 8"),
                            (dense(("model.layers.1.self_attn.v_proj.weight",)), gemma, "layers with v_proj and num_hidden_layers of config.json: 1 and 2")):
        with Save() as c:
            c.safetensors("save/model.safetensors", m.save)
            c.file("save/config.json", {**DENSE, **change})
            if said:
                c.told("hf/ is not converted by a recipe", said, at="save")
            else:
                assert c.model() == m.want, change


def layers_under_other_names_are_counted():
    for names, side in ((("model.decoder.layers.{}.fc1.weight", "model.decoder.embed_tokens.weight"), {"model_type": "opt", "num_hidden_layers": 2}),
                        (("backbone.layers.{}.mixer.D", "backbone.embeddings.weight"), {"model_type": "mamba", "num_hidden_layers": 2}),
                        (("backbone.layers.{}.mixer.D", "backbone.embeddings.weight"), {"model_type": "mamba", "n_layer": 2}),
                        (("gpt_neox.layers.{}.attention.dense.weight", "gpt_neox.embed_in.weight"), {"model_type": "gpt_neox", "num_hidden_layers": 2})):
        m = Numbers()
        for n in (names[0].format(0), names[0].format(1), names[1]):
            m.put("module." + n, [4, 3], n)
        layers = next(k for k in side if k != "model_type")
        for change, said in (({}, None), ({layers: 1}, "2 and 1"), ({layers: 3}, "2 and 3"), ({"vocab_size": 5}, "rows of the embedding and vocab_size of config.json: 4 and 5")):
            with Save() as c:
                c.safetensors("save/model.safetensors", m.save)
                c.file("save/config.json", {"vocab_size": 4, **side, **change})
                if said:
                    c.told("hf/ is not converted by a recipe", said, at="save")
                else:
                    assert c.model() == m.want


def a_model_inside_an_adapter_is_refused():
    """PEFT's own names, as state_dict() of get_peft_model(model) gives them; without the model's own tensors it is an adapter, of which nothing is said."""
    inside = "base_model.model.model.layers.0.self_attn.q_proj."
    for front in ("", "module.", "_orig_mod.module."):
        m = Numbers()
        for n in (inside + "base_layer.weight", inside + "lora_A.default.weight", inside + "lora_B.default.weight"):
            m.put(front + n, [4, 3])
        for whole in (False, True):
            with Save() as c:
                c.safetensors("save/model.safetensors", {**m.save, **({front + "base_model.model.model.embed_tokens.weight": m.save[front + inside + "base_layer.weight"]} if whole else {})})
                c.file("save/config.json", DENSE)
                if whole:
                    c.told("hf/ is not converted by a recipe", "it is a model with an adapter of PEFT around it", at="save")
                else:
                    assert "adapter of PEFT" not in c.run("info", None, at="save").stdout.decode()


def mpt_in_one_file_of_composer():
    shapes = {"norm_1": (8,), "attn.Wqkv": (24, 8), "attn.out_proj": (8, 8), "norm_2": (8,), "ffn.up_proj": (32, 8), "ffn.down_proj": (8, 32)}
    weights = {"transformer.wte.weight": (6, 8), "transformer.norm_f.weight": (8,), **{f"transformer.blocks.{i}.{n}.weight": s for i in range(2) for n, s in shapes.items()}}

    def values(k, shape):
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        return Tensor(*range(1000 * k, 1000 * k + n), shape=shape)
    for settings, part in (({}, None), ({"learned_pos_emb": False}, None), ({"expansion_ratio": 3}, "expansion_ratio"), ({"norm_type": "rmsnorm"}, "norm_type"), ({"logit_scale": 0.5}, "scaled logits"),
                           ({"learned_pos_emb": True}, "ALiBi"), ({"block_overrides": {"a": 1}}, "block_overrides"), ({"tie_word_embeddings": False}, "tie_word_embeddings"),
                           ({"ffn_config": {"ffn_type": "mptglu"}}, "ffn_type"), ({"n_layers": 3}, "2 and 3"), ({"vocab_size": 5}, "6 and 5"), ({"d_model": 16}, "8 and 16"),
                           ({"final_logit_softcapping": 30.0}, "softcapping"), ({"no_bias": False}, "no_bias"), ({"attention_bias": True}, "attention_bias"), ({"prefix_lm": True}, "prefix_lm"),
                           ({"expansion_ratio": 2, "ffn_config": {"ffn_type": "mptmlp", "ffn_hidden_size": 32}}, None), ({"ffn_config": {"ffn_act_fn": {"name": "gelu", "approximate": "none"}}}, None),
                           ({"ffn_config": {"ffn_act_fn": {"name": "gelu", "approximate": "tanh"}}}, "ffn_act_fn"), ({"ffn_config": {"ffn_act_fn": {"name": "relu"}}}, "ffn_act_fn"),
                           *(({"attn_config": {**MPT["attn_config"], k: v}}, said) for k, v, said in (
                               ("alibi", False, "ALiBi"), ("rope", True, "ALiBi"), ("attn_type", "grouped_query_attention", "attn_type"), ("kv_n_heads", 1, "attn_type"),
                               ("qk_gn", True, "qk_gn"), ("sliding_window_size", 8, "sliding_window_size"), ("qk_ln", True, "qk_ln"), ("alibi_bias_max", 16, "16 and 8"),
                               ("attn_temperature_tuning", {"floor_scale": 8192, "attn_scale": 0.1}, "attn_temperature_tuning"), ("prefix_lm", True, "prefix_lm"), ("attn_logit_softcapping", 9.0, "softcapping")))):
        with Save() as c:
            os.mkdir(os.path.join(c.dir, "save"))
            content = {**MPT, **settings}
            if settings == {"learned_pos_emb": False}:  # Composer's state alone
                save({"model": {"model." + n: values(k, s) for k, (n, s) in enumerate(weights.items())},
                      "integrations": {"huggingface": {"model": {"config": {"content": content}}}}}, os.path.join(c.dir, "save", "ep0-ba2-rank0.pt"))
                assert c.config()["d_model"] == 8
                continue
            save({"state": {"model": {"model." + n: values(k, s) for k, (n, s) in enumerate(weights.items())},
                            "integrations": {"huggingface": {"model": {"config": {"file_extension": ".json", "content": content}, "class": "x"}}}, "rank_zero_seed": 17},
                  "rng": [{"python": 1}]}, os.path.join(c.dir, "save", "ep0-ba2-rank0.pt"))
            if part:
                c.told("hf/ is not the model MptForCausalLM", part, at="save")
                continue
            got = c.model()
            assert {n: tuple(s) for n, (s, _) in got.items()} == weights
            assert got["transformer.blocks.1.norm_2.weight"][1] == values_of(11, 8)
            config = c.config()
            want = {"d_model": 8, "n_heads": 2, "n_layers": 2, "layer_norm_epsilon": 1e-4, "no_bias": True, "max_seq_len": 64, "tie_word_embeddings": True}
            assert {k: config.get(k) for k in want} == want and config["attn_config"]["alibi_bias_max"] == 8 and repr(config["attn_config"]["clip_qkv"]) == "6.0", config


def mpt_in_a_directory_of_composer():
    """A save of torch.distributed.checkpoint: Composer's whole state, or one of its parts, is the state dict."""
    shapes = {"wte": (6, 8), "norm_f": (8,), **{f"blocks.{i}.{n}": s for i in range(2) for n, s in (("norm_1", (8,)), ("attn.Wqkv", (24, 8)), (
        "attn.out_proj", (8, 8)), ("norm_2", (8,)), ("ffn.up_proj", (32, 8)), ("ffn.down_proj", (8, 32)))}}
    for torch, settings in (("2.14", MPT), ("2.14", {**MPT, "n_layers": 3}), ("2.14", {}), ("1.13", MPT)):  # 1.13: names only, no paths
        for front, path in ((("state", "model", "model."), ("state", "integrations", "huggingface")), (("model", "model."), ("integrations", "huggingface")),
                            (("model", ""), ("integrations", "huggingface"))):
            if torch == "1.13" and front[0] != "state":
                continue
            with Save() as c:
                folder = os.path.join(c.dir, "save")
                os.mkdir(folder)
                d = mkdcp.Checkpoint(argparse.Namespace(dir=folder, torch=torch, ranks=2, sparse=False, hollow=False, columns=False, plans=False))
                m = Numbers()
                for n, s in shapes.items():
                    name = f"transformer.{n}.weight"
                    d.tensor((*front[:-1], front[-1] + name), s)
                    m.want[name] = (list(s), mkdcp.content(".".join(front[:-1]) + "." + front[-1] + name, 4 * s[0] * (s[1] if len(s) > 1 else 1)))
                for key, value in settings.items():
                    d.bytes_item((*path, "model", "config", "content", key), value)
                d.bytes_item((*path, "model", "config", "class"), "x")
                for o in d.out:
                    o.close()
                with open(os.path.join(folder, ".metadata"), "wb") as f:
                    pickle.dump(d.metadata(), f, 4)
                if settings == MPT:
                    c.holds(m, "MptForCausalLM", d_model=8, n_heads=2, layer_norm_epsilon=1e-4, max_seq_len=64)
                elif settings:
                    c.told("hf/ is not the model MptForCausalLM", "2 and 3", at="save")
                else:
                    r = c.run("recipes", None, at="save")
                    assert r.returncode == 1 and "the settings of llm-foundry are not in the save" in " ".join(r.stdout.decode().split()), r.stdout.decode()


def values_of(k, n):
    return struct.pack(f"<{n}f", *range(1000 * k, 1000 * k + n))


def llama_of_meta():
    params = {"dim": 16, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "norm_eps": 1e-4, "vocab_size": -1}
    m, hd = Numbers(), 4
    m.put("tok_embeddings.weight", [24, 16], "model.embed_tokens.weight")
    m.put("norm.weight", [16], "model.norm.weight")
    m.put("output.weight", [24, 16], "lm_head.weight")
    m.put("rope.freqs", [2])
    for i in range(2):
        p, q = f"layers.{i}.", f"model.layers.{i}."
        for x, n in (("q", 4), ("k", 2)):
            m.put(p + f"attention.w{x}.weight", [n * hd, 16], q + f"self_attn.{x}_proj.weight", pick=[h * hd + 2 * j + two for h in range(n) for two in range(2) for j in range(hd // 2)])
        m.put(p + "attention.wv.weight", [2 * hd, 16], q + "self_attn.v_proj.weight")
        m.put(p + "attention.wo.weight", [16, 16], q + "self_attn.o_proj.weight")
        for w, t in (("w1", "gate"), ("w3", "up"), ("w2", "down")):
            m.put(p + f"feed_forward.{w}.weight", [16, 10] if w == "w2" else [10, 16], q + f"mlp.{t}_proj.weight")
        m.put(p + "attention_norm.weight", [16], q + "input_layernorm.weight")
        m.put(p + "ffn_norm.weight", [16], q + "post_attention_layernorm.weight")
    three = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    tied = {"output.weight": m.save["tok_embeddings.weight"]}
    with Save() as c:  # without a head, beside a config.json that does not say that the embedding is one
        c.safetensors("save/model.safetensors", {k: v for k, v in m.save.items() if k != "output.weight"})
        c.file("save/params.json", params)
        opts = ("-o", "side=" + os.path.join(c.dir, "side"))
        for said in (True, None):
            side = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": said}
            c.file("side/config.json", {k: v for k, v in side.items() if v is not None})
            c.told("hf/ is the model LlamaForCausalLM" if said else "hf/ is not the model LlamaForCausalLM: config.json does not say that the head is the embedding", at="save", opts=opts)
    for change, more, want in (({}, {}, {"rope_theta": 10000.0, "max_position_embeddings": 4096, "num_key_value_heads": 2, "head_dim": 4, "rms_norm_eps": 1e-4, "rope_scaling": None}),
                               ({"rope_theta": 500000.0}, {}, {"rope_theta": 500000.0, "max_position_embeddings": 8192}),
                               ({"rope_theta": 500000.0, "use_scaled_rope": True}, {}, {"rope_scaling": three, "max_position_embeddings": 131072}),
                               ({}, tied, {"tie_word_embeddings": True}), ({"dim": 32}, {}, "16 and 32"), ({"n_layers": 3}, {}, "2 and 3"), ({"n_kv_heads": None}, {}, "8 and 16"),
                               ({"n_heads": 8}, {}, "half a head"), ({"norm_eps": None}, {}, "norm_eps"), ({"vocab_size": 24}, {}, {"vocab_size": 24}),
                               ({"vocab_size": 32}, {}, "24 and 32"), ({"use_scaled_rope": True}, {}, "base of the scaled"), ({"moe_args": {"num_experts": 4}}, {}, "experts, adapters or quantized"),
                               ({"lora_args": {"rank": 4}}, {}, "experts, adapters or quantized"), ({"quantization_args": {"group_size": 4}}, {}, "experts, adapters or quantized")):
        with Save() as c:
            c.safetensors("save/model.safetensors", {**m.save, **more})
            c.file("save/params.json", {k: v for k, v in {**params, **change}.items() if v is not None})
            if isinstance(want, str):
                c.told("hf/ is not the model LlamaForCausalLM", want, at="save")
                continue
            of = Numbers()
            of.want = {k: v for k, v in m.want.items() if not more or k != "lm_head.weight"}
            c.holds(of, "LlamaForCausalLM", **want)
            if not change:
                every = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 24, "hidden_size": 16, "intermediate_size": 10, "num_hidden_layers": 2,
                         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "rms_norm_eps": 1e-4,
                         "rope_theta": 10000.0, "max_position_embeddings": 4096, "tie_word_embeddings": bool(more), "torch_dtype": "int32", "bos_token_id": None, "eos_token_id": None}
                assert c.config() == every, c.config()
                said = " ".join(c.run("recipes", None, at="save").stdout.decode().split())
                assert "fits meta-llama" in said and said.count("it has settings of Meta's own (params.json)") == 4, said

    side = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    for scaled, outside, said in ((True, {}, "config.json does not"), (True, {"rope_scaling": {**three, "factor": 32.0}}, None), (False, {"rope_scaling": three}, "in another way"), (False, {}, None)):
        with Save() as c:
            c.safetensors("save/model.safetensors", m.save)
            c.file("save/params.json", {**params, "rope_theta": 5e5, "use_scaled_rope": scaled})
            c.file("side/config.json", {**side, **outside})
            opts = ("-o", "side=" + os.path.join(c.dir, "side"))
            if said:
                c.told("hf/ is not the model LlamaForCausalLM", said, at="save", opts=opts)
            else:
                c.holds(m, "LlamaForCausalLM", *opts, num_attention_heads=4, rms_norm_eps=1e-4, rope_theta=5e5, rope_scaling=outside.get("rope_scaling"))


main([layers_under_other_names_are_counted, a_model_inside_an_adapter_is_refused, mpt_in_a_directory_of_composer, what_the_most_used_classes_need_is_there, names_in_front_and_inside_are_taken_off, settings_that_contradict_a_wrapped_model_are_refused, mpt_in_one_file_of_composer, llama_of_meta])
