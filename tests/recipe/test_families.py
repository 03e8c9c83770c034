#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Families of which the golden saves have none: small models by the trainer's names, each number of which is another one."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
from golden import main  # noqa: E402 pylint: disable=wrong-import-position
from models import Numbers, Save  # noqa: E402 pylint: disable=wrong-import-position


HF_V3 = {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "num_attention_heads": 2, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4,
         "v_head_dim": 5, "kv_lora_rank": 8, "q_lora_rank": None, "hidden_size": 12, "n_routed_experts": 3, "n_shared_experts": 2,
         "moe_intermediate_size": 7, "first_k_dense_replace": 1, "num_hidden_layers": 2, "vocab_size": 16, "intermediate_size": 14}


def frame(m, old, vocab, hidden):
    """All of torchtitan's models have these.  The front of each layer's names, in the checkpoint and in hf/."""
    m.put("tok_embeddings.weight", [vocab, hidden], "model.embed_tokens.weight")
    m.put("norm.weight", [hidden], "model.norm.weight")
    m.put("output.weight" if old else "lm_head.weight", [vocab, hidden], "lm_head.weight")
    for i in range(2):
        p, q = f"layers.{i}.", f"model.layers.{i}."
        m.put(p + "attention_norm.weight", [hidden], q + "input_layernorm.weight")
        m.put(p + "ffn_norm.weight", [hidden], q + "post_attention_layernorm.weight")
        yield i, p, q


def deepseek(narrow, old):
    m = Numbers()
    for i, p, q in frame(m, old, 16, 12):
        m.put(p + "attention.wkv_a.weight", [12, 12], q + "self_attn.kv_a_proj_with_mqa.weight")
        m.put(p + "attention.kv_norm.weight", [8], q + "self_attn.kv_a_layernorm.weight")
        m.put(p + "attention.wkv_b.weight", [22, 8], q + "self_attn.kv_b_proj.weight")
        m.put(p + "attention.wo.weight", [12, 10], q + "self_attn.o_proj.weight")
        if narrow:
            m.put(p + "attention.wq_a.weight", [9, 12], q + "self_attn.q_a_proj.weight")
            m.put(p + "attention.q_norm.weight", [9], q + "self_attn.q_a_layernorm.weight")
            m.put(p + "attention.wq_b.weight", [20, 9], q + "self_attn.q_b_proj.weight")
        else:
            m.put(p + "attention.wq.weight", [20, 12], q + "self_attn.q_proj.weight")
        names = (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj"))
        for w, t in names:
            wide = [12, 14] if w == "w2" else [14, 12]
            if i == 0:
                m.put(p + f"feed_forward.{w}.weight", wide, q + f"mlp.{t}.weight")
            else:
                m.put(p + f"moe.shared_experts.{w}.weight", wide, q + f"mlp.shared_experts.{t}.weight")
                name = f"moe.experts.{w}" if old else f"moe.routed_experts.inner_experts.{w}_{'EDF' if w == 'w2' else 'EFD'}"
                m.put(p + name, [3, 12, 7] if w == "w2" else [3, 7, 12], parts=[q + f"mlp.experts.{e}.{t}.weight" for e in range(3)])
        if i == 1:
            m.put(p + "moe.router.gate.weight", [3, 12], q + "mlp.gate.weight")
            m.put(p + ("moe.expert_bias" if old else "moe.expert_bias_E"), [3], q + "mlp.gate.e_score_correction_bias")
    return m


def deepseek_v3_of_torchtitan():
    for narrow in (False, True):
        for old in (False, True):
            m = deepseek(narrow, old)
            with Save() as c:
                c.safetensors("save/model.safetensors", m.save)
                c.told("hf/ is not the model DeepseekV3ForCausalLM", "-o side=DIR", at="save")
                config = {**HF_V3, "q_lora_rank": 9 if narrow else None}
                opts = ("-o", "side=" + os.path.join(c.dir, "side"))
                c.file("side/config.json", config)
                assert c.model(*opts) == m.want
                for change, part in (({"num_attention_heads": 4}, "columns of wo"), ({"qk_nope_head_dim": 8}, "rows of wkv_b"), ({"kv_lora_rank": 6}, "wkv_a"),
                                     ({"q_lora_rank": 5}, "q_lora_rank"), ({"n_shared_experts": 1}, "n_shared_experts"), ({"n_routed_experts": 4}, "n_routed_experts"),
                                     ({"first_k_dense_replace": 0}, "first_k_dense_replace"), ({"rope_interleave": False}, "rope_interleave"),
                                     ({"model_type": "deepseek_v2"}, "model_type"), ({"moe_intermediate_size": 14}, "moe_intermediate_size")):
                    c.file("side/config.json", {**config, **change})
                    c.told("hf/ is not the model", part, at="save", opts=opts)


HF_QWEN3 = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "hidden_size": 16,
            "num_hidden_layers": 2, "vocab_size": 24, "intermediate_size": 10, "tie_word_embeddings": False, "rope_theta": 1e6, "rms_norm_eps": 1e-6}
HF_QWEN3_MOE = {**HF_QWEN3, "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 3, "num_experts_per_tok": 2,
                "moe_intermediate_size": 7, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}


def qwen3(experts, old):
    """Qwen 3 of torchtitan 0.3, or of 0.2: the rotary embedding turns halves, so nothing is re-ordered."""
    m, hd = Numbers(), 6
    for i, p, q in frame(m, old, 24, 16):
        for name, n in (("q", 4), ("k", 2), ("v", 2)):
            m.put(p + f"attention.{'' if old else 'qkv_linear.'}w{name}.weight", [n * hd, 16], q + f"self_attn.{name}_proj.weight")
        m.put(p + "attention.wo.weight", [16, 4 * hd], q + "self_attn.o_proj.weight")
        for name in "qk":
            m.put(p + f"attention.{name}_norm.weight", [hd], q + f"self_attn.{name}_norm.weight")
        for w, t in (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")):
            if not experts:
                m.put(p + f"feed_forward.{w}.weight", [16, 10] if w == "w2" else [10, 16], q + f"mlp.{t}.weight")
                continue
            name = f"moe.experts.{w}" if old else f"moe.routed_experts.inner_experts.{w}_{'EDF' if w == 'w2' else 'EFD'}"
            m.put(p + name, [3, 16, 7] if w == "w2" else [3, 7, 16], parts=[q + f"mlp.experts.{e}.{t}.weight" for e in range(3)])
        if experts:
            m.put(p + "moe.router.gate.weight", [3, 16], q + "mlp.gate.weight")
    return m


def qwen_3_of_torchtitan_and_its_experts():
    both = (({"num_attention_heads": 2}, "rows of wq"), ({"num_attention_heads": 6, "head_dim": 4, "num_key_value_heads": 3}, "q_norm"),
            ({"num_key_value_heads": 1}, "num_key_value_heads"), ({"head_dim": 12}, "head_dim"), ({"num_hidden_layers": 3}, "num_hidden_layers"),
            ({"hidden_size": 8}, "hidden_size"), ({"vocab_size": 32}, "vocab_size"), ({"tie_word_embeddings": True}, "the tensors differ"),
            ({"model_type": "llama"}, "model_type"), ({"attention_bias": True}, "attention_bias"), ({"hidden_act": "gelu"}, "hidden_act"), ({"num_attention_heads": "4"}, "heads"), ({"num_attention_heads": None}, "-o side=DIR"))
    for experts, side, more in (
            (False, HF_QWEN3, (({"intermediate_size": 12}, "intermediate_size"),)),
            (True, HF_QWEN3_MOE, (({"num_experts": 4}, "num_experts"), ({"moe_intermediate_size": 14}, "moe_intermediate_size"),
                                  ({"mlp_only_layers": [0]}, "mlp_only_layers"), ({"decoder_sparse_step": 2}, "decoder_sparse_step"), ({"num_experts_per_tok": 4}, "num_experts_per_tok")))):
        for old in (False, True):
            m = qwen3(experts, old)
            with Save() as c:
                c.safetensors("save/model.safetensors", m.save)
                c.told("hf/ is not the model " + side["architectures"][0], "-o side=DIR", at="save")
                c.file("side/config.json", side)
                opts = ("-o", "side=" + os.path.join(c.dir, "side"))
                assert c.model(*opts) == m.want
                c.filled(side, {"attention_bias": False, "hidden_act": "silu"}, *opts)
                c.file("side/config.json", {**side, "attention_bias": False, "hidden_act": "silu"})
                c.cat("hf/config.json", json.dumps({**side, "attention_bias": False, "hidden_act": "silu"}).encode(), *opts, at="save")
                said = c.run("recipes", None, *opts, at="save").stdout.decode().splitlines()
                assert [line.split()[:2] for line in said if not line.startswith(("no ", " "))] == [["fits", "torchtitan-qwen3-moe" if experts else "torchtitan-qwen3"]], said
                for change, part in both + more if old else ():
                    c.file("side/config.json", {**side, **change})
                    c.told("hf/ is not the model", part, at="save", opts=opts)


def heads_that_are_the_embedding_are_left_out():
    """torchtitan saves both.  Where config.json does not say that they are one, Hugging Face's class has two."""
    for old in (False, True):
        for m, side in ((qwen3(False, old), HF_QWEN3), (deepseek(True, old), {**HF_V3, "q_lora_rank": 9})):
            m.want.pop("lm_head.weight")
            m.copy("output.weight" if old else "lm_head.weight", "tok_embeddings.weight")
            for said in (True, False, None):
                both = {**m.want, "lm_head.weight": m.want["model.embed_tokens.weight"]}
                with Save() as c:
                    c.safetensors("save/model.safetensors", m.save)
                    c.file("side/config.json", {k: v for k, v in {**side, "tie_word_embeddings": said}.items() if k != "tie_word_embeddings" or said is not None})
                    assert c.model("-o", "side=" + os.path.join(c.dir, "side")) == (m.want if said else both)


def biases_by_which_experts_are_chosen_are_told():
    for old, values, told in ((False, b"\0" * 12, False), (False, struct.pack("<3f", 0, 0, 0.5), True), (True, b"\0" * 12, False), (True, struct.pack("<3f", 0, 1, 0), True)):
        m = qwen3(True, old)
        m.save["layers.1.moe.expert_bias" + ("" if old else "_E")] = ("F32", [3], values)
        with Save() as c:
            c.safetensors("save/model.safetensors", m.save)
            c.file("side/config.json", HF_QWEN3_MOE)
            opts = ("-o", "side=" + os.path.join(c.dir, "side"))
            assert c.model(*opts) == m.want
            assert (b"expert_bias) is not zero" in c.run("info", None, "-v", *opts, at="save").stdout) == told


def titan(heads=4, kv=2, hd=4, old=False, **more):
    """A Llama of torchtitan 0.3, or by the names of 0.2, whose queries and keys turn neighbours, and the settings of its job (trainer.py, to_dict)."""
    m, dim, ffn, qkv = Numbers(), 16, 10, "attention." if old else "attention.qkv_linear."
    m.put("tok_embeddings.weight", [24, dim], "model.embed_tokens.weight")
    m.put("norm.weight", [dim], "model.norm.weight")
    m.put("output.weight" if old else "lm_head.weight", [24, dim], "lm_head.weight")
    for i in range(2):
        p, q = f"layers.{i}.", f"model.layers.{i}."
        m.put(p + "attention_norm.weight", [dim], q + "input_layernorm.weight")
        m.put(p + "ffn_norm.weight", [dim], q + "post_attention_layernorm.weight")
        for name, n in (("q", 4), ("k", 2)):
            m.put(p + qkv + f"w{name}.weight", [n * hd, dim])
            rows = m.save[p + qkv + f"w{name}.weight"][2]
            order = [h * hd + 2 * j + two for h in range(n) for two in range(2) for j in range(hd // 2)]
            m.want[q + f"self_attn.{name}_proj.weight"] = ([n * hd, dim], b"".join(rows[4 * dim * r:4 * dim * (r + 1)] for r in order))
        m.put(p + qkv + "wv.weight", [2 * hd, dim], q + "self_attn.v_proj.weight")
        m.put(p + "attention.wo.weight", [dim, 4 * hd], q + "self_attn.o_proj.weight")
        for ours, theirs, shape in (("w1", "gate", [ffn, dim]), ("w3", "up", [ffn, dim]), ("w2", "down", [dim, ffn])):
            m.put(p + f"feed_forward.{ours}.weight", shape, q + f"mlp.{theirs}_proj.weight")
    rope = {"dim": hd if hd != 4 else dim // heads, "max_seq_len": 64, "theta": 50000.0, "scaling": "llama", "scaling_factor": 4.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    layer = {"attention": {"n_heads": heads, "n_kv_heads": kv, "head_dim": hd if hd != 4 else None, "qk_norm": None, "rope": rope},
             "attention_norm": {"eps": 1e-4}, "ffn_norm": {"eps": 1e-4}}
    model = {"dim": dim, "vocab_size": 24, "norm": {"eps": 1e-4}, "layers": [layer, json.loads(json.dumps(layer))], "enable_weight_tying": False, **more}
    return m, {"job": {"x": 1}, "model_spec": {"name": "llama3", "flavor": "small", "model": model}}


def a_job_of_torchtitan_says_what_its_steps_do_not():
    def layers(settings):
        return settings["model_spec"]["model"]["layers"]
    for front in ("side/", "save/"):
        with Save() as c:
            opts = ("-o", "side=" + os.path.join(c.dir, "side")) if front == "side/" else ()
            for more in ({"hd": 6}, {"old": True}, {}):  # {} stays
                m, settings = titan(**more)
                c.safetensors("save/model.safetensors", m.save)
                c.file(front + "config.json", settings)
                assert c.model(*opts) == m.want
                config = json.loads(c.run("cat", "hf/config.json", *opts, at="save").stdout)
                assert config["head_dim"] == more.get("hd", 4)
            want = {"architectures": ["LlamaForCausalLM"], "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "rope_theta": 50000.0,
                    "rms_norm_eps": 1e-4, "vocab_size": 24, "intermediate_size": 10, "tie_word_embeddings": False, "max_position_embeddings": 64,
                    "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                     "original_max_position_embeddings": 32}}
            assert config == {**want, "model_type": "llama", "hidden_size": 16, "num_hidden_layers": 2, "hidden_act": "silu", "torch_dtype": "int32", "bos_token_id": None, "attention_bias": False, "mlp_bias": False,
                              "eos_token_id": None, "pad_token_id": None}, config
            for change, said in ((lambda s: layers(s).pop(), "1 and 2"), (lambda s: s["model_spec"]["model"].update(dim=32), "32 and 16"),
                                 (lambda s: s["model_spec"]["model"].update(vocab_size=32), "32 and 24"),
                                 (lambda s: layers(s)[0]["attention"].update(n_kv_heads=4), "n_kv_heads and rows of wk: 4 and 2"),
                                 (lambda s: [x["attention"].update(n_heads=2, n_kv_heads=1) for x in layers(s)], "rope.dim"),
                                 (lambda s: layers(s)[1]["attention"]["rope"].update(theta=1e4), "layers whose attentions differ"),
                                 (lambda s: layers(s)[1]["attention"]["rope"].update(high_freq_factor=8.0), "layers whose attentions differ"),
                                 (lambda s: layers(s)[1]["attention"].update(inner_attention={"window_size": [4, 0]}), "layers with windows"),
                                 (lambda s: layers(s)[1]["ffn_norm"].update(eps=1e-5), "norms of several epsilons"),
                                 (lambda s: s["model_spec"]["model"].pop("norm"), "norm.eps"),
                                 (lambda s: s["model_spec"]["model"].update(enable_weight_tying=True), "the tensors differ"),
                                 (lambda s: layers(s)[0]["attention"]["rope"].update(scaling="yarn"), "rope.scaling"),
                                 (lambda s: s.pop("model_spec"), "-o side=DIR")):
                m, settings = titan()
                change(settings)
                c.file(front + "config.json", settings)
                c.told("hf/ is not the model LlamaForCausalLM", said, at="save", opts=opts)


def heads_that_a_job_ties_are_tied_by_config_json_too():
    m, settings = titan(enable_weight_tying=True)
    m.want.pop("lm_head.weight")
    m.copy("lm_head.weight", "tok_embeddings.weight")
    both = {**m.want, "lm_head.weight": m.want["model.embed_tokens.weight"]}
    for said, want in ((True, m.want), (False, both), (None, None)):
        with Save() as c:
            c.safetensors("save/model.safetensors", m.save)
            c.file("save/config.json", settings)
            side = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": said}
            c.file("side/config.json", {k: v for k, v in side.items() if v is not None})
            opts = ("-o", "side=" + os.path.join(c.dir, "side"))
            if want:
                assert c.model(*opts) == want
            else:
                c.told("hf/ is not the model LlamaForCausalLM: config.json does not say that the head is the embedding", at="save", opts=opts)
    for old in (False, True):  # one that is lost is not said to differ
        m, settings = titan(old=old)
        with Save() as c:
            head = "output.weight" if old else "lm_head.weight"
            path = c.safetensors("save/model.safetensors", {k: v for k, v in m.save.items() if k != head} | {head: m.save["tok_embeddings.weight"]})
            c.file("side/config.json", {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_attention_heads": 4, "tie_word_embeddings": True})
            opts = ("-o", "side=" + os.path.join(c.dir, "side"))
            c.told("hf/ is the model LlamaForCausalLM", at="save", opts=opts)
            os.truncate(path, os.path.getsize(path) - 100)
            c.told("hf/ is not the model LlamaForCausalLM", "which cannot be seen", at="save", opts=(*opts, "-o", "degraded,lost=omit"))


def a_job_of_torchtitan_says_how_experts_are_chosen():
    def settings(change, only=2, **more):
        rope = {"dim": 6, "max_seq_len": 64, "theta": 1e6, "scaling": "none"}
        layers = [{"attention": {"n_heads": 4, "n_kv_heads": 2, "head_dim": 6, "qk_norm": {"eps": 1e-6}, "rope": rope}, "attention_norm": {"eps": 1e-6}, "ffn_norm": {"eps": 1e-6},
                   "moe": {"router": {"num_experts": 3, "top_k": 2, "score_func": "softmax", "route_norm": True, "route_scale": 1.0, "num_expert_groups": None,
                                      **(change if i < only else {})}}} for i in range(2)]
        return {"model_spec": {"name": "qwen3", "model": {"dim": 16, "vocab_size": 24, "norm": {"eps": 1e-6}, "layers": layers, "enable_weight_tying": False, **more}}}
    m = qwen3(True, False)
    with Save() as c:
        c.safetensors("save/model.safetensors", m.save)
        opts = ("-o", "side=" + os.path.join(c.dir, "side"))
        for change, want in (({}, {"num_experts_per_tok": 2, "norm_topk_prob": True}), ({"top_k": 1, "route_norm": False}, {"num_experts_per_tok": 1, "norm_topk_prob": False}),
                             ({"route_norm": None}, {"norm_topk_prob": False})):
            c.file("side/config.json", settings(change))
            c.holds(m, "Qwen3MoeForCausalLM", *opts, num_experts=3, moe_intermediate_size=7, rope_theta=1e6, **want)
        for change, only, said in (({"score_func": "sigmoid"}, 2, "softmax alone"), ({"route_scale": 2.5}, 2, "softmax alone"), ({"num_expert_groups": 3}, 2, "softmax alone"),
                                   ({"top_k": None}, 2, "softmax alone"), ({"num_experts": 4}, 2, "4 and 3"), ({"top_k": 1}, 1, "several ways"), ({"route_norm": False}, 1, "several ways")):
            c.file("side/config.json", settings(change, only))
            c.told("hf/ is not the model Qwen3MoeForCausalLM", said, at="save", opts=opts)


def fronts_of_torchtitan_are_taken_off():
    for front in ("model.", "module."):
        with Save() as c:
            m, settings = titan()
            c.safetensors("save/model.safetensors", {front + k: v for k, v in m.save.items()})
            c.file("side/config.json", settings)
            assert c.model("-o", "side=" + os.path.join(c.dir, "side")) == m.want


main([heads_that_a_job_ties_are_tied_by_config_json_too, deepseek_v3_of_torchtitan, heads_that_are_the_embedding_are_left_out, qwen_3_of_torchtitan_and_its_experts, biases_by_which_experts_are_chosen_are_told, a_job_of_torchtitan_says_what_its_steps_do_not,
      a_job_of_torchtitan_says_how_experts_are_chosen, fronts_of_torchtitan_are_taken_off])
