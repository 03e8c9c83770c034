#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hf/ of a Megatron save in zarr, two tensor-parallel ranks: the model, all that is made of it, and what a lost chunk costs."""
import json
import os
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "format"), os.path.join(HERE, "..", "support")]
import mkzarr  # noqa: E402 pylint: disable=wrong-import-position
from golden import Case, ZEROFS, main  # noqa: E402 pylint: disable=wrong-import-position

HEADS, GROUPS, DIM, WIDTH, FFN, ROWS, LAYERS = 4, 2, 6, 16, 10, 32, 2
ARGS = {"num_layers": LAYERS, "hidden_size": WIDTH, "ffn_hidden_size": FFN, "num_attention_heads": HEADS, "num_query_groups": GROUPS,
        "group_query_attention": True, "kv_channels": DIM, "normalization": "RMSNorm", "swiglu": True, "position_embedding_type": "rope",
        "rotary_base": 10000, "norm_epsilon": 1e-5, "add_bias_linear": False, "untie_embeddings_and_output_weights": True,
        "max_position_embeddings": 64, "tensor_model_parallel_size": 2}
QKV = "decoder.layers.self_attention.linear_qkv.weight"
# Shapes, and the dimension that ranks cut.
WHOLE = {"embedding.word_embeddings.weight": ((ROWS, WIDTH), 0), "output_layer.weight": ((ROWS, WIDTH), 0), "decoder.final_layernorm.weight": ((WIDTH,), None)}
LAYER = {"self_attention.linear_qkv.weight": (((HEADS + 2 * GROUPS) * DIM, WIDTH), 0), "self_attention.linear_proj.weight": ((WIDTH, HEADS * DIM), 1),
         "self_attention.linear_qkv.layer_norm_weight": ((WIDTH,), None), "mlp.linear_fc1.layer_norm_weight": ((WIDTH,), None),
         "mlp.linear_fc1.weight": ((2 * FFN, WIDTH), 0), "mlp.linear_fc2.weight": ((WIDTH, FFN), 1)}


def rows_of(shape, layer=0):
    """The rows of a tensor, or of one layer of a stacked one, as mkzarr numbers its elements."""
    n = 1
    for s in shape:
        n *= s
    w = shape[-1]
    return [struct.pack(f"<{w}f", *range(n * layer + k, n * layer + k + w)) for k in range(0, n, w)]


def model():
    """{name: (shape, bytes)}"""
    def put(name, rows):
        want[name] = ([len(rows), len(rows[0]) // 4] if not name.endswith("norm.weight") else [WIDTH], b"".join(rows))
    want = {}
    put("model.embed_tokens.weight", rows_of((ROWS, WIDTH)))
    put("lm_head.weight", rows_of((ROWS, WIDTH)))
    put("model.norm.weight", rows_of((WIDTH,)))
    per = HEADS // GROUPS
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        of = {n: rows_of(s, i) for n, (s, _) in LAYER.items()}
        qkv = of["self_attention.linear_qkv.weight"]
        heads = [qkv[DIM * k:DIM * (k + 1)] for k in range(HEADS + 2 * GROUPS)]  # of each group its queries, its key, its value
        for name, kinds in (("q", range(per)), ("k", [per]), ("v", [per + 1])):
            put(p + f"self_attn.{name}_proj.weight", [r for g in range(GROUPS) for k in kinds for r in heads[g * (per + 2) + k]])
        put(p + "self_attn.o_proj.weight", of["self_attention.linear_proj.weight"])
        put(p + "input_layernorm.weight", of["self_attention.linear_qkv.layer_norm_weight"])
        put(p + "post_attention_layernorm.weight", of["mlp.linear_fc1.layer_norm_weight"])
        put(p + "mlp.gate_proj.weight", of["mlp.linear_fc1.weight"][:FFN])
        put(p + "mlp.up_proj.weight", of["mlp.linear_fc1.weight"][FFN:])
        put(p + "mlp.down_proj.weight", of["mlp.linear_fc2.weight"])
    return want


def tensors_of(data):
    (n,) = struct.unpack_from("<Q", data)
    return {k: (v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in json.loads(data[8:8 + n]).items() if k != "__metadata__"}


class Save(Case):
    def put(self, **args):
        self.save = os.path.join(self.dir, "save")
        mkzarr.common(self.save, **{**ARGS, **args})
        stacked = {f"decoder.layers.{n}": ((LAYERS, *s), None if cut is None else cut + 1) for n, (s, cut) in LAYER.items()}
        for name, (shape, cut) in {**WHOLE, **stacked}.items():
            chunks = [1 if k == 0 and name in stacked else s // 2 if k == cut else s for k, s in enumerate(shape)]
            mkzarr.array(self.save, name, shape, chunks, compressor="zlib")
        mkzarr.finish(self.save)
        return self

    def read(self, path, *opts):
        r = self.run("cat", path, *opts, at="save")
        assert r.returncode == 0, r.stderr.decode()
        return r.stdout


def a_save_in_zarr_is_the_model():
    with Save() as c:
        c.put().told("hf/ is the model LlamaForCausalLM", at="save")
        want = model()
        assert tensors_of(c.read("hf/model.safetensors")) == want
        half = {n: (s, b"".join(struct.pack("<f", x)[2:] for x in struct.unpack(f"<{len(b) // 4}f", b))) for n, (s, b) in want.items()}
        got = tensors_of(c.read("as/bf16/hf/model.safetensors"))
        exact = [n for n, (_, b) in want.items() if all(x < 256 for x in struct.unpack(f"<{len(b) // 4}f", b))]
        assert got.keys() == half.keys() and len(exact) > 3 and all(got[n] == half[n] for n in exact)
        out = os.path.join(c.dir, "out")
        subprocess.run([ZEROFS, "export", "-q", c.save, "hf/", out], check=True, timeout=60)
        with open(os.path.join(out, "model.safetensors"), "rb") as f:
            assert tensors_of(f.read()) == want


def selections_are_no_model():
    with Save() as c:
        c.put()
        for opts, said in ((("-o", "except=decoder.layers.1.*"), "1 and 2"), (("-o", "except=output_layer.*"), "no output_layer.weight"),
                           (("-o", "except=*layer_norm_weight"), "layer_norm_weight")):
            c.told("hf/ is not the model LlamaForCausalLM", said, at="save", opts=opts)
            assert "model.norm.weight" not in tensors_of(c.read("hf/model.safetensors", *opts))
        for opts in (("-o", "rename=^decoder=encoder"), ("-o", "strip_prefix=decoder."), ("-o", "only=decoder.*")):
            assert "model.norm.weight" not in tensors_of(c.read("hf/model.safetensors", *opts))
        assert c.run("info", None, "-o", "only=model.layers.*", at="save").returncode == 2


def a_lost_chunk_costs_what_is_made_of_it():
    with Save() as c:
        c.put()
        os.unlink(os.path.join(c.save, QKV, "1.1.0"))
        c.refused(QKV, at="save")
        gone = {f"model.layers.1.self_attn.{q}_proj.weight" for q in "qkv"}
        omit, want = ("-o", "degraded,lost=omit"), model()
        assert tensors_of(c.read("hf/model.safetensors", *omit)) == {n: t for n, t in want.items() if n not in gone}
        lost = json.loads(c.read("hf/LOST.json", *omit))["lost"]
        assert {x["name"] for x in lost} == gone, lost
        r = c.run("cat", "hf/model.safetensors", "-o", "degraded", at="save")
        assert r.returncode == 5 and "model.layers.1.self_attn." in r.stderr.decode(), r.stderr.decode()
        assert {n: s for n, (s, _) in tensors_of(c.read("hf/model.safetensors", "-o", "degraded,lost=nan")).items()} == {n: s for n, (s, _) in want.items()}
        # The second group of queries, keys and values is NaN, the first is whole.
        for n, (_, b) in tensors_of(c.read("hf/model.safetensors", "-o", "degraded,lost=nan")).items():
            half = len(b) // 2
            assert b == (want[n][1] if n not in gone else want[n][1][:half] + struct.pack("<f", float("nan")) * (half // 4)), n


main([a_save_in_zarr_is_the_model, selections_are_no_model, a_lost_chunk_costs_what_is_made_of_it])
