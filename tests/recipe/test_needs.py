#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every recipe says first of tensors that are not its own, and what is told of a head and an embedding that were not compared wholly."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "format"), os.path.join(HERE, "..", "support")]
from golden import main  # noqa: E402 pylint: disable=wrong-import-position
from megatron import numbered  # noqa: E402 pylint: disable=wrong-import-position
from models import Save  # noqa: E402 pylint: disable=wrong-import-position

TENSORS = {"megatron": "it has no tensors of Megatron-core", "olmo-core": "it has no tensors of OLMo-core", "olmo": "it has no tensors of OLMo 0.x", "torchtitan": "it has no tensors of torchtitan",
           "gpt-neox": "it has no tensors of GPT-NeoX's layers", "meta-llama": "it has no tensors of Meta's Llama", "mpt": "it has no tensors of MPT", "wrapped": "there is no config.json of transformers"}


def reasons(c):
    """{recipe: why it does not fit}, of all recipes."""
    said = c.run("recipes", None, at="save").stdout.decode().splitlines()
    lines = []
    for line in said:
        if line.startswith(" "):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    return {line.split()[1]: line for line in lines if line.startswith("no ")}


def every_recipe_says_first_which_tensors_it_is_of():
    with Save() as c:
        c.safetensors("save/model.safetensors", {"x": numbered([2], 0)})
        said = reasons(c)
        assert len(said) == len([f for f in os.listdir(os.path.join(HERE, "..", "..", "recipes")) if f.endswith(".recipe") and f[0] != "_"]), said
        for name, why in said.items():
            family = max((f for f in TENSORS if name.startswith(f)), key=len)
            assert TENSORS[family] in why, why


def one_tensor_of_a_family_is_not_enough():
    for name, others in (("gpt-neox", ("2.attention.query_key_value.weight",)), ("gpt-neox", ("0.word_embeddings.weight",)), ("mpt", ("transformer.blocks.0.attn.Wqkv.weight",)),
                         ("mpt", ("transformer.wte.weight",)), ("meta-llama", ("tok_embeddings.weight",)), ("meta-llama", ("layers.0.attention.wq.weight",)),
                         ("meta-llama", ("tok_embeddings.weight", "layers.0.attention.wq.weight", "layers.0.attention.q_norm.weight")),
                         ("torchtitan-qwen3", ("tok_embeddings.weight", "layers.0.attention.q_norm.weight")), ("torchtitan-qwen3", ("norm.weight", "layers.0.attention.q_norm.weight")),
                         ("torchtitan-qwen3", ("norm.weight", "tok_embeddings.weight"))):
        with Save() as c:
            c.safetensors("save/model.safetensors", {n: numbered([2], 0) for n in others})
            family = max((f for f in TENSORS if name.startswith(f)), key=len)
            assert TENSORS[family] in reasons(c)[name], (others, reasons(c)[name])


def a_head_that_was_compared_in_64_places_is_told():
    large = ("I32", [81920, 16], bytes(81920 * 64))  # 5 MiB, of which 64 places of 64 KiB are 4
    other = ("I32", [81920, 16], b"\1\0\0\0" + bytes(81920 * 64 - 4))
    late = ("I32", [81920, 16], bytes(81920 * 64 - 4) + b"\1\0\0\0")  # in none of the places
    layers = {n: numbered(s, 0) for i in range(2) for p in [f"layers.{i}."] for n, s in (
        (p + "attention_norm.weight", [16]), (p + "ffn_norm.weight", [16]), *((p + f"attention.w{x}.weight", [16, 16]) for x in "qkvo"),
        (p + "feed_forward.w1.weight", [10, 16]), (p + "feed_forward.w3.weight", [10, 16]), (p + "feed_forward.w2.weight", [16, 10]))}
    params = {"dim": 16, "n_layers": 2, "n_heads": 4, "norm_eps": 1e-5}
    side = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_attention_heads": 4}
    both = "the head is the embedding in 64 places and was not compared wholly: both are kept"
    one = "the head and the embedding, which are one by the settings, were compared in 64 places only"
    job = {"model_spec": {"model": {"dim": 16, "vocab_size": 81920, "norm": {"eps": 1e-5}, "layers": [
        {"attention": {"n_heads": 4, "n_kv_heads": 4, "rope": {"theta": 10000.0}}, "attention_norm": {"eps": 1e-5}, "ffn_norm": {"eps": 1e-5}}] * 2}}}
    for head, files, tied, told in ((large, {"params.json": params}, None, both), (other, {"params.json": params}, None, None), (late, {"params.json": params}, None, both), (large, {}, True, one), (large, {}, False, None),
                                    (large, {"config.json": job}, None, both), (other, {"config.json": job}, None, None), (late, {"config.json": job}, None, both)):
        with Save() as c:
            c.safetensors("save/model.safetensors", {"tok_embeddings.weight": large, "output.weight": head, "norm.weight": numbered([16], 0), **layers})
            for name, content in files.items():
                c.file("save/" + name, content)
            opts = ()
            if tied is not None:
                c.file("side/config.json", {**side, "tie_word_embeddings": tied})
                opts = ("-o", "side=" + os.path.join(c.dir, "side"))
            for limit, said in (("1", told), ("100000000", None)):
                out = c.run("info", None, "-v", "--limit", "compare_bytes=" + limit, *opts, at="save").stdout.decode()
                assert "hf/ is the model LlamaForCausalLM" in out, out
                assert (both in out, one in out) == (said == both, said == one), (limit, told, out)


main([every_recipe_says_first_which_tensors_it_is_of, one_tensor_of_a_family_is_not_enough, a_head_that_was_compared_in_64_places_is_told])
